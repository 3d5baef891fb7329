package sandbox

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
)

// usersEntry is the name of a program that only waits for the end of its input.
const usersEntry = "nomad-users"

func init() {
	companion.Register(usersEntry, func() int {
		var one [1]byte
		for {
			if n, err := unix.Read(0, one[:]); n <= 0 && err != unix.EINTR {
				return 0
			}
		}
	})
}

// maxMapped is the kernel's maximum number of entries in a map of a user namespace.
const maxMapped = 340

// Owners opens a user namespace that has only the user and its groups, for Root.Users. Nothing runs in it.
func Owners(u *User) (*os.File, error) {
	f, err := owners(u)
	if err != nil {
		return nil, fmt.Errorf("make a user namespace for the owners of files: %w", err)
	}
	return f, nil
}

func owners(u *User) (*os.File, error) {
	program, err := os.OpenFile(companion.Path(), unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	const programFD = 3 // in its own user namespace, the child cannot use a path of this process
	pid, err := syscall.ForkExec("/proc/self/fd/3", []string{usersEntry}, &syscall.ProcAttr{Dir: "/",
		Files: []uintptr{r.Fd(), closedFD, closedFD, programFD: program.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapped([]uint32{u.UID}),
			GidMappings: mapped(append([]uint32{u.GID}, u.Groups...))}})
	if err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	w.Close()
	unix.Kill(pid, unix.SIGKILL) //nolint:errcheck // it may have ended
	for {
		if _, werr := unix.Wait4(pid, nil, 0, nil); werr != unix.EINTR {
			return f, err
		}
	}
}

// closedFD is the number of a descriptor that the child does not have.
const closedFD = ^uintptr(0)

// mapped returns a map of IDs to themselves, without duplicates.
func mapped(ids []uint32) []syscall.SysProcIDMap {
	var out []syscall.SysProcIDMap
	seen := map[uint32]bool{}
	for _, id := range ids {
		if !seen[id] && len(out) < maxMapped {
			out = append(out, syscall.SysProcIDMap{ContainerID: int(id), HostID: int(id), Size: 1})
		}
		seen[id] = true
	}
	return out
}
