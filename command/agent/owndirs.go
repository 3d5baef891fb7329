package agent

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ownDirs lists the directories of the agent that tasks must not see. It includes the directories
// of the audit log and the log file if only the agent uses them. /var/log, for example, is not
// hidden.
func (a *Agent) ownDirs(stateDir, allocDir string) []string {
	out := []string{stateDir, filepath.Join(a.data.path, "server"), filepath.Join(a.data.path, "audit")}
	var files []string
	if c := a.set.AuditConfig(a.data.path); c != nil {
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

// isOwnDir reports whether a directory belongs to the agent alone. For an ordinary user, others
// must have no write permission. Root also owns system directories, so for root other users must
// have no permission at all.
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
