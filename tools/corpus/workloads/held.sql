-- A history of changes as JSON, blobs, counts by day, and a table without row numbers.
create table changes(seq integer primary key, doc text);
create table blobs(hash blob primary key, data blob) without rowid;
create table daily(day text, path text, hits integer, bytes integer, primary key(day, path));
with recursive n(i) as (select 1 union all select i + 1 from n where i < 140000)
insert into changes select i, json_object('id', i, 'user', 'u' || (i * 6007 % 3001), 'op', case i % 3 when 0 then 'put' when 1 then 'get' else 'delete' end, 'path', '/srv/data/' || (i % 37) || '/' || (i * 11 % 5003) || '.html', 'size', i * 7919 % 100003, 'ok', json('true')) from n;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 90000)
insert into blobs select unhex(printf('%016X%08X', i * 2654435761, i)), zeroblob(i % 40) || 'chunk ' || i || ' of the file, with ' || (i * i % 977) from n where true on conflict do nothing;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 320000)
insert or ignore into daily select date(1600000000 + (i % 700) * 86400, 'unixepoch'), '/page/' || (i * 131 % 1201), i * 17 % 4001, i * 7919 % 10000019 from n;
create index by_path on daily(path, hits);
.shell sleep 1000
