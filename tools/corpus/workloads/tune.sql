-- People, what they bought, and indices on both.
create table people(id integer primary key, name text, town text, born integer, note text);
create table sales(id integer primary key, person integer, thing text, price real, at text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 260000)
insert into people select i, 'name ' || (i * 7919 % 50021), 'town ' || (i * 31 % 997), 1930 + i * 17 % 80, hex(i * 2654435761) || ' of ' || i from n;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 330000)
insert into sales select i, i * 48271 % 200000, 'thing ' || (i * 13 % 611), (i * 7 % 10007) / 9.0, datetime(1500000000 + i * 977, 'unixepoch') from n;
create index by_name on people(name);
create index by_person on sales(person, at);
.shell sleep 1000
