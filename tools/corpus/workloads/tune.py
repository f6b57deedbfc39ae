# Parses the standard library, and keeps syntax trees and documents.
import ast, glob, json, os, time
trees, documents = [], []
for path in sorted(glob.glob(os.path.dirname(os.__file__) + "/*.py"))[:90]:
    text = open(path, encoding="utf-8", errors="replace").read()
    tree = ast.parse(text)
    trees.append(tree)
    names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
    documents.append(json.loads(json.dumps({"path": path, "lines": text.splitlines(), "names": names, "sizes": {n: len(n) for n in names}})))
time.sleep(1000)
