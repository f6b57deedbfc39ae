# A small simulation: orders of customers, text that is indexed, numbers, and what came of them.
import collections, decimal, glob, html, os, random, re, time, datetime
random.seed(7)
class Order:
    def __init__(self, number, customer):
        self.number, self.customer = number, customer
        self.at = datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=random.randrange(10**8))
        self.lines = [(random.choice(GOODS), random.randint(1, 20), decimal.Decimal(random.randrange(10**6)) / 100) for _ in range(random.randint(1, 6))]
        self.total = sum(n * price for _, n, price in self.lines)
GOODS = ["%s-%s" % (a, b) for a in "bolt nut gear axle lamp wire pump seal".split() for b in range(40)]
orders = [Order(i, "customer%05d@example.org" % random.randrange(9000)) for i in range(30000)]
by_customer = collections.defaultdict(list)
for order in orders:
    by_customer[order.customer].append(order)
index, texts = collections.defaultdict(set), []
for path in sorted(glob.glob(os.path.dirname(os.__file__) + "/[a-f]*.py")):
    for number, line in enumerate(open(path, encoding="utf-8", errors="replace")):
        texts.append(html.escape(line.strip()))
        for word in re.findall(r"\w+", line):
            index[word.lower()].add((path, number))
walk, x = [], 0.0
for _ in range(200000):
    x += random.gauss(0, 1)
    walk.append(x)
time.sleep(1000)
