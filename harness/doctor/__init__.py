"""What this machine can run, and the one command that repairs what it cannot."""

from harness.doctor.examine import examine
from harness.doctor.finding import Finding, State
from harness.doctor.table import print_findings

__all__ = ["Finding", "State", "examine", "print_findings"]
