package agent

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ownDirs lists the directories of the agent that no task may see. Those of the audit log and of
// the log file are among them if they belong to the agent alone: /var/log is not hidden.
func (a *Agent) ownDirs(stateDir, allocDir string) []string {
	out := []string{stateDir, filepath.Join(a.data.path, "server"), filepath.Join(a.data.path, "audit")}
	var files []string
	if c := a.set.auditConfig(a.data.path); c != nil {
		files = append(files, c.Path)
	}
	if a.logFile != nil {
		files = append(files, a.logFile.path)
	}
	for _, file := range files {
		dir, err := filepath.Abs(filepath.Dir(file))
		if err == nil && isOwnDir(dir) && !strings.HasPrefix(allocDir+"/", dir+"/") {
			out = append(out, dir)
		}
	}
	return out
}

// isOwnDir reports whether a directory is the agent's alone. An ordinary user's is one that nobody
// else can write to. Root owns those of the system too, so it must be closed to others.
func isOwnDir(dir string) bool {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil || int(st.Uid) != os.Geteuid() {
		return false
	}
	if st.Uid == 0 {
		return st.Mode&0o007 == 0
	}
	return st.Mode&0o022 == 0
}
