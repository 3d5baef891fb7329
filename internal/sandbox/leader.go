package sandbox

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// leader is the program of a session, whose PID is the session ID.
type leader struct {
	pid   int
	pidfd int
}

// leaderOf returns the program that a stage executed. With init it is init's child: init outlives
// it, and a later process with the same PID has another parent. For a program that has ended it
// returns a zero leader.
func leaderOf(p *launch.Process) (*leader, error) {
	pid := p.Main()
	if pid == 0 {
		return &leader{pidfd: -1}, nil
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH || err == unix.EINVAL {
		return &leader{pidfd: -1}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	st, err := proc.ReadStat(pid)
	if pid != p.PID && (err != nil || st.Parent != p.PID) {
		unix.Close(pidfd)
		return &leader{pidfd: -1}, nil
	}
	return &leader{pid, pidfd}, nil
}

func (l *leader) close() {
	if l.pidfd >= 0 {
		unix.Close(l.pidfd)
	}
}

// rounds limits the passes that kill processes forked meanwhile.
const rounds = 5

// kill kills the session. The leader, which is stopped first, is killed last: until then its PID
// cannot be reused.
func (l *leader) kill() {
	if l.pidfd < 0 || unix.PidfdSendSignal(l.pidfd, unix.SIGSTOP, nil, 0) != nil {
		return // it has ended
	}
	for range rounds {
		if killOthers(l.pid) == 0 {
			break
		}
	}
	unix.PidfdSendSignal(l.pidfd, unix.SIGKILL, nil, 0) //nolint:errcheck // it may have ended
}

// killOthers kills the members of a session except its leader, and returns their number.
func killOthers(session int) (found int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == session {
			continue
		}
		if st, err := proc.ReadStat(pid); err == nil && st.Session == session && st.State != "Z" {
			unix.Kill(pid, unix.SIGKILL) //nolint:errcheck // it may have ended
			found++
		}
	}
	return found
}
