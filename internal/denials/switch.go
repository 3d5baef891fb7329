package denials

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// DefaultDir holds what agents of this host know of its switches. It is in memory, as
// the switches are: a boot resets both.
const DefaultDir = "/run/open-nomad/audit"

// actionsLogged is the kernel's list of seccomp answers that may be logged.
const actionsLogged = "/proc/sys/kernel/seccomp/actions_logged"

// errnoAction is the answer of our filters, as that list has it.
const errnoAction = "errno"

// found is how the host was before an agent changed it, on disk until it is put back.
type found struct {
	Auditing *uint32 `json:",omitempty"` // audit_enabled, when it was changed
	Actions  *string `json:",omitempty"` // actions_logged, when it was changed
	Rule     bool    `json:",omitempty"` // the rule about command lines was added
}

// Switch is the hold of one agent on the switches of the host. The kernel lets go of it
// when the agent dies: "users" is locked, shared, by each agent that needs them, and
// whoever can lock it for himself alone is the last and puts things back. "lock" is
// held while anything is looked at or changed.
type Switch struct {
	dir   string
	users *os.File
}

// Available says in an error why this process cannot have what mode needs.
func Available(mode Mode) error {
	if mode == Off {
		return nil
	}
	l, err := listen()
	if err != nil {
		return fmt.Errorf("%w (it takes CAP_AUDIT_READ, outside of containers)", err)
	}
	if err := l.close(); err != nil {
		return err
	}
	if mode != Audit {
		return nil
	}
	on, err := auditing()
	if err == nil && on != 2 { // 2 is for good, and as it should be
		err = setAuditing(on) // as it is: only to see that it may be set
	}
	if err != nil {
		return fmt.Errorf("%w (it takes CAP_AUDIT_CONTROL, outside of containers)", err)
	}
	return nil
}

// Hold makes the kernel tell what mode needs, and keeps it so until Release. Off puts
// back what an agent that crashed has left, and returns a Switch that holds nothing.
func Hold(dir string, mode Mode) (*Switch, error) {
	if _, err := os.Stat(filepath.Join(dir, "found")); mode == Off && (errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)) {
		return &Switch{}, nil // nothing was left, or it is root's business
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory for the state of auditing: %w", err)
	}
	s := &Switch{dir: dir}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.restoreUnused(); err != nil {
		return nil, err
	}
	if mode == Off {
		return s, nil
	}
	if s.users, err = os.OpenFile(filepath.Join(dir, "users"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("hold auditing: %w", err)
	}
	if err := flock(s.users, unix.LOCK_SH); err != nil {
		s.users.Close()
		return nil, fmt.Errorf("hold auditing: %w", err)
	}
	if err := s.turnOn(mode); err != nil {
		s.users.Close()
		return nil, errors.Join(err, s.restoreUnused())
	}
	return s, nil
}

// Release puts things back as they were found, unless another agent needs them.
func (s *Switch) Release() error {
	if s.users == nil {
		return nil
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	s.users.Close()
	s.users = nil
	return s.restoreUnused()
}

// lock keeps other agents from looking and changing at the same time.
func (s *Switch) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state of auditing: %w", err)
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the state of auditing: %w", err)
	}
	return func() { f.Close() }, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// restoreUnused puts back what nobody needs any more.
func (s *Switch) restoreUnused() error {
	was, err := s.read()
	if err != nil || was == (found{}) {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, "users"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("restore auditing: %w", err)
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return nil // another agent needs it
	} else if err != nil {
		return fmt.Errorf("restore auditing: %w", err)
	}
	if err := was.restore(); err != nil {
		return err
	}
	if err := os.Remove(s.file()); err != nil {
		return fmt.Errorf("restore auditing: %w", err)
	}
	return nil
}

// restore puts back what is still as an agent has set it: what somebody else has
// changed meanwhile is theirs.
func (was found) restore() error {
	if was.Rule {
		if err := showCommandLines(); err != nil {
			return err
		}
	}
	if was.Auditing != nil {
		now, err := auditing()
		if err != nil {
			return err
		}
		if now == 1 {
			if err := setAuditing(*was.Auditing); err != nil {
				return err
			}
		}
	}
	if was.Actions == nil {
		return nil
	}
	now, err := readActions()
	if err != nil {
		return err
	}
	if !sameWords(now, withErrno(*was.Actions)) {
		return nil
	}
	return writeActions(*was.Actions)
}

// turnOn changes what mode needs and is not so yet. What was found is on disk before.
func (s *Switch) turnOn(mode Mode) error {
	was, err := s.read()
	if err != nil {
		return err
	}
	actions, err := readActions()
	if err != nil {
		return err
	}
	enabled := uint32(1)
	if mode == Audit {
		if enabled, err = auditing(); err != nil {
			return err
		}
	}
	setActions := !slices.Contains(strings.Fields(actions), errnoAction)
	if setActions && was.Actions == nil {
		was.Actions = &actions
	}
	if enabled == 0 && was.Auditing == nil {
		was.Auditing = &enabled
	}
	if err := s.write(was); err != nil {
		return err
	}
	if setActions {
		if err := writeActions(withErrno(actions)); err != nil {
			return err
		}
	}
	if enabled != 0 {
		return nil // what somebody else wants of auditing is his business
	}
	if err := s.hide(was); err != nil {
		return err
	}
	return setAuditing(1)
}

// hide keeps command lines out of the records that only we have turned on. It is on disk
// before: a crash between leaves a rule too few rather than one too many.
func (s *Switch) hide(was found) error {
	if was.Rule {
		return nil
	}
	was.Rule = true
	if err := s.write(was); err != nil {
		return err
	}
	added, err := hideCommandLines()
	if err != nil || added {
		return err
	}
	was.Rule = false
	return s.write(was)
}

func (s *Switch) file() string { return filepath.Join(s.dir, "found") }

func (s *Switch) read() (found, error) {
	var was found
	raw, err := os.ReadFile(s.file())
	if errors.Is(err, os.ErrNotExist) {
		return was, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	if err != nil {
		return was, fmt.Errorf("read how auditing was found: %w", err)
	}
	return was, nil
}

// write replaces the file in one step: a crash leaves the old one or the new one.
func (s *Switch) write(was found) error {
	if was == (found{}) {
		return nil
	}
	raw, err := json.Marshal(was)
	if err == nil {
		next := s.file() + ".next"
		if err = os.WriteFile(next, raw, 0o600); err == nil {
			err = os.Rename(next, s.file())
		}
	}
	if err != nil {
		return fmt.Errorf("remember how auditing was found: %w", err)
	}
	return nil
}

func readActions() (string, error) {
	raw, err := os.ReadFile(actionsLogged)
	if err != nil {
		return "", fmt.Errorf("read which seccomp answers are logged: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func withErrno(actions string) string { return strings.TrimSpace(actions + " " + errnoAction) }

// sameWords compares lists, which the kernel writes in an order of its own.
func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func writeActions(actions string) error {
	if err := os.WriteFile(actionsLogged, []byte(actions), 0); err != nil {
		return fmt.Errorf("set which seccomp answers are logged: %w", err)
	}
	return nil
}
