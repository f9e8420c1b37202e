"""Private megabytes of a process that draws with a pickled sanitizer; run as a script.

Pages that others have too, such as landmarks in the page cache, are not counted.
"""

import pickle
import sys
from pathlib import Path

if __name__ == "__main__":
    sanitizer = pickle.loads(Path(sys.argv[1]).read_bytes())
    tokens = sanitizer.space.vocabulary.tokens[:2000]
    sanitizer.release_batch([" ".join(tokens[start::20]) for start in range(20)])
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    sizes = {name: int(size.split()[0]) for name, _, size in (x.partition(":") for x in lines[1:])}
    print(sizes["Private_Dirty"] / 1024)
