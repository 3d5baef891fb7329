package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// isolates returns the most that isolates a task, on a node that lacks nothing.
func isolates(user string, block map[string]any) drivers.Isolation {
	i := WithUser(drivers.Strictest(), user)
	return WithUnveiled(i, TaskUnveil(block))
}

// WithUser returns the isolation of a task with this user, which need not exist here.
func WithUser(i drivers.Isolation, user string) drivers.Isolation {
	switch {
	case user == "" || hostuser.IsDynamic(user): // the client assigns one
	case user == "root" || number(user) && strings.Trim(user, "0") == "":
		i.User = drivers.UserRoot
	default:
		i.User = min(i.User, drivers.UserShared)
	}
	return i
}

// TaskUnveil returns the entries of unveil in a task's config block, as they are written.
func TaskUnveil(block map[string]any) (out []string) {
	switch list := block["unveil"].(type) {
	case nil:
	case []string:
		return list
	case []any:
		for _, e := range list {
			s, _ := e.(string) // another type has no valid mode, and grants everything
			out = append(out, s)
		}
	default:
		out = append(out, "")
	}
	return out
}

// TaskProfile returns the seccomp profile that a task's config block selects, "" for the node's
// default.
func TaskProfile(block map[string]any) string {
	s, _ := block["seccomp_profile"].(string)
	return s
}

// WithUnveiled returns the isolation of a task that also sees these paths. An entry that cannot be
// parsed counts as one that grants everything: a node refuses it.
func WithUnveiled(i drivers.Isolation, entries []string) drivers.Isolation {
	for _, e := range entries {
		modes, path, _ := strings.Cut(e, ":")
		if drivers.IsOwn(path) {
			continue
		}
		if modes == "" || strings.Trim(modes, "rx") != "" {
			i.Files = min(i.Files, drivers.FilesGranted)
		}
		if ofDevice(path) {
			i.Devices = false
		}
	}
	return i
}

// harmless are the files of /dev that every task may use.
var harmless = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/stdin", "/dev/stdout",
	"/dev/stderr", "/dev/fd", "/dev/log"}

// ofDevice reports whether a path is or contains devices of the node.
func ofDevice(path string) bool {
	if strings.HasPrefix(path, drivers.Reference) {
		return false // the value is known on the node
	}
	path = filepath.Clean("/" + path)
	return path == "/" || path == "/dev" || strings.HasPrefix(path, "/dev/") && !slices.Contains(harmless, path)
}
