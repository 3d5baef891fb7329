package exec2

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// share of the host's process IDs that one task may take, in percent.
const share = 15

// leastProcesses is enough for a program of many threads on a small host.
const leastProcesses = 512

// defaultProcesses bounds a task that forks without end: the host must still be
// able to start a shell. Threads count too, so the bound is high.
func defaultProcesses() (int64, error) {
	least := int64(0)
	for _, name := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, fmt.Errorf("read the host's bound of processes: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the host's bound of processes in %s: %w", name, err)
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return max(least*share/100, leastProcesses), nil
}

// processes is how many a task may have at a time; 0 is no bound.
func (s settings) processes() (int64, error) {
	if s.maxProcesses >= 0 {
		return int64(s.maxProcesses), nil
	}
	return defaultProcesses()
}
