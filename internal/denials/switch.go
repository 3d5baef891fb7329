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

// DefaultDir holds the agents' records about the switches of this host. It is on a tmpfs: like the
// switches, it is reset by a boot.
const DefaultDir = "/run/open-nomad/audit"

// actionsLogged is the kernel's list of seccomp actions that may be logged.
const actionsLogged = "/proc/sys/kernel/seccomp/actions_logged"

// errnoAction is the action of our filters in that list.
const errnoAction = "errno"

// found is the state of the host before an agent changed it. It is on disk until it is restored.
type found struct {
	Auditing *uint32 `json:",omitempty"` // audit_enabled, if changed
	Actions  *string `json:",omitempty"` // actions_logged, if changed
	Rule     bool    `json:",omitempty"` // the rule about command lines was added
}

// Switch is one agent's hold on the switches of the host. The kernel releases it when the agent
// dies. Each agent that needs the switches has a shared lock on "users". An agent that gets an
// exclusive lock is the last one and restores them. "lock" is held during every read or change.
type Switch struct {
	dir   string
	users *os.File
}

// Available returns an error if this process cannot have what mode needs.
func Available(mode Mode) error {
	if mode == Off {
		return nil
	}
	l, err := listen()
	if err != nil {
		return fmt.Errorf("%w (it needs CAP_AUDIT_READ, outside of containers)", err)
	}
	if err := l.close(); err != nil {
		return err
	}
	if mode != Audit {
		return nil
	}
	on, err := auditing()
	if err == nil && on != 2 { // 2 is locked on, as needed
		err = setAuditing(on) // unchanged: only tests the permission
	}
	if err != nil {
		return fmt.Errorf("%w (it needs CAP_AUDIT_CONTROL, outside of containers)", err)
	}
	return nil
}

// NewSwitch sets the switches for mode until Release. For Off it restores what a crashed agent left, and
// returns a Switch that holds nothing.
func NewSwitch(dir string, mode Mode) (*Switch, error) {
	if _, err := os.Stat(filepath.Join(dir, "found")); mode == Off && (errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)) {
		return &Switch{}, nil // nothing to restore, or not permitted
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

// Release restores the switches, unless another agent needs them.
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

// lock excludes other agents from reading and changing the switches.
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

// restoreUnused restores the switches if no agent needs them.
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
		return nil // another agent needs them
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

// restore restores only switches that still have the agent's value; later changes by others stay.
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

// turnOn sets the switches for mode. It first writes the old values to disk.
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
		return nil // auditing belongs to somebody else: keep it
	}
	if err := s.hide(was); err != nil {
		return err
	}
	return setAuditing(1)
}

// hide keeps command lines out of the records if only we have turned auditing on. The state is on
// disk before: a crash in between leaves a rule too few rather than one too many.
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
		return was, fmt.Errorf("read the saved audit state: %w", err)
	}
	return was, nil
}

// write replaces the file atomically.
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
		return fmt.Errorf("save the audit state: %w", err)
	}
	return nil
}

func readActions() (string, error) {
	raw, err := os.ReadFile(actionsLogged)
	if err != nil {
		return "", fmt.Errorf("read the logged seccomp actions: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func withErrno(actions string) string { return strings.TrimSpace(actions + " " + errnoAction) }

// sameWords compares lists in any order, since the kernel reorders them.
func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func writeActions(actions string) error {
	if err := os.WriteFile(actionsLogged, []byte(actions), 0); err != nil {
		return fmt.Errorf("set the logged seccomp actions: %w", err)
	}
	return nil
}
