"""W1 in SimSo: 100 periodic tasks of 5 ms and 0.33 ms on 10 processors, partitioned EDF.

`simso_w1.py SECONDS` simulates so many seconds. Deadlines are the periods, offsets are spread evenly.
"""

import sys

from simso.configuration import Configuration
from simso.core import Model

CYCLES_PER_MS = 1_000_000
TASKS = 100
PERIOD_MS = 5.0

configuration = Configuration()
configuration.cycles_per_ms = CYCLES_PER_MS
configuration.duration = int(sys.argv[1]) * 1000 * CYCLES_PER_MS
for row in range(TASKS):
    configuration.add_task(
        name=f"periodic-{row}",
        identifier=row,
        period=PERIOD_MS,
        activation_date=PERIOD_MS * row / TASKS,
        wcet=0.33,
        deadline=PERIOD_MS,
    )
for row in range(10):
    configuration.add_processor(name=f"cpu-{row}", identifier=row)
configuration.scheduler_info.clas = "simso.schedulers.P_EDF"
configuration.check_all()
Model(configuration).run_model()
