# Keeps the words of Perl's own library: hashes, arrays, and objects.
use strict; use File::Find;
my (%count, %where, @lines, @objects);
find(sub { return unless /\.(pm|pl|pod)$/ && -f; open my $f, '<', $_ or return; my $n = 0;
  while (my $line = <$f>) { last if $n++ > 400; push @lines, $line if $n % 2;
    while ($line =~ /(\w{3,})/g) { $count{lc $1}++; push @{$where{$1}}, [$File::Find::name, $n] if $count{lc $1} < 60; } }
  push @objects, bless { name => $_, size => -s _, lines => $n, mean => $n ? (-s _) / $n : 0 }, 'Source'; }, grep { -d } @INC);
print scalar(@lines), "\n"; sleep 1000;
