"""The measures that docs/benchmarks.md quotes: each a command, `python -m benchmarks.NAME`.

`python -m benchmarks` runs all of them. One measure prints one line of JSON on stdout; what it is
doing goes to stderr. A line is good only when `other_cpu_s`, what anything else on the machine used
meanwhile, is near 0.
"""
