package chroot

import (
	"fmt"
	"os"
	"sync"

	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// owners keeps a user namespace for each user of tasks, as long as the agent runs. No process is in it.
type owners struct {
	mu   sync.Mutex
	open map[string]*os.File
}

// path returns the path of the user namespace with a user and its groups. It is valid while the agent runs.
func (o *owners) path(acc hostuser.User) (string, error) {
	key := fmt.Sprint(acc.UID, acc.GID, acc.Groups)
	o.mu.Lock()
	f := o.open[key]
	o.mu.Unlock()
	if f == nil {
		made, err := sandbox.Owners(&sandbox.User{UID: acc.UID, GID: acc.GID, Groups: acc.Groups})
		if err != nil {
			return "", fmt.Errorf("%w (cap_drop = [\"all\"] in the task needs none, map_owners = false in the plugin block makes none)", err)
		}
		f = o.keep(key, made)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), nil
}

// keep adds a namespace, unless another call has.
func (o *owners) keep(key string, made *os.File) *os.File {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.open[key]; f != nil {
		made.Close() // nothing was written
		return f
	}
	if o.open == nil {
		o.open = map[string]*os.File{}
	}
	o.open[key] = made
	return made
}
