"""The logger `drystone`: operations of containers, and each warning, for programs that keep a log.

Nothing is printed unless the program configures logging.
"""

import logging

log = logging.getLogger("drystone")
log.addHandler(logging.NullHandler())
