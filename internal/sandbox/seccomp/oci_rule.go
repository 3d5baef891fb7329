package seccomp

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	lib "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// actions are the actions that need no tracer or listener.
var actions = map[string]lib.Action{
	"SCMP_ACT_ALLOW": lib.ActionAllow, "SCMP_ACT_ERRNO": lib.ActionErrno, "SCMP_ACT_LOG": lib.ActionLog, "SCMP_ACT_TRAP": lib.ActionTrap,
	"SCMP_ACT_KILL": lib.ActionKillThread, "SCMP_ACT_KILL_THREAD": lib.ActionKillThread, "SCMP_ACT_KILL_PROCESS": lib.ActionKillProcess,
}

// maxErrno is the highest error number of the kernel.
const maxErrno = 4095

func action(name string, errnoRet *uint) (lib.Action, error) {
	a, ok := actions[name]
	switch {
	case name == "":
		return 0, errors.New("the action is missing")
	case !ok:
		return 0, fmt.Errorf("%q is not supported: want SCMP_ACT_ALLOW, _ERRNO, _LOG, _TRAP, _KILL, _KILL_THREAD or _KILL_PROCESS", name)
	case a != lib.ActionErrno && errnoRet != nil:
		return 0, fmt.Errorf("%s does not allow an error number", name)
	case a != lib.ActionErrno:
		return a, nil
	case errnoRet == nil:
		return a | lib.Action(unix.EPERM), nil
	case *errnoRet < 1 || *errnoRet > maxErrno:
		return 0, fmt.Errorf("error number %d is not in 1 to %d", *errnoRet, maxErrno)
	}
	return a | lib.Action(*errnoRet), nil
}

// rule converts a syscalls entry for this machine; false means that it has no effect.
func (s *fileSyscall) rule() (rule, bool, error) {
	var r rule
	var err error
	if r.action, err = action(s.Action, s.ErrnoRet); err != nil {
		return r, false, fmt.Errorf("action: %w", err)
	}
	if r.names, err = s.calls(); err != nil {
		return r, false, err
	}
	for i, a := range s.Args {
		c, err := a.condition()
		if err != nil {
			return r, false, fmt.Errorf("args[%d].%w", i, err)
		}
		r.when = append(r.when, c)
	}
	in, err := s.Includes.holds(true)
	if err != nil {
		return r, false, fmt.Errorf("includes.%w", err)
	}
	out, err := s.Excludes.holds(false)
	if err != nil {
		return r, false, fmt.Errorf("excludes.%w", err)
	}
	return r, in && !out, nil
}

// calls returns the names of the rule without duplicates. A name that no architecture has is an
// error.
func (s *fileSyscall) calls() ([]string, error) {
	names := s.Names
	if s.Name != "" {
		names = append(slices.Clone(names), s.Name)
	}
	if len(names) == 0 {
		return nil, errors.New("names: none")
	}
	info, err := native()
	if err != nil {
		return nil, err
	}
	var out []string
	for i, n := range names {
		if _, ok := number(info, n); !ok && !elsewhere(n) {
			return nil, fmt.Errorf("names[%d]: system call %q is unknown", i, n)
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// lastArg is the index of the sixth argument.
const lastArg = 5

var comparisons = map[string]lib.Operation{
	"SCMP_CMP_EQ": lib.Equal, "SCMP_CMP_NE": lib.NotEqual, "SCMP_CMP_GT": lib.GreaterThan,
	"SCMP_CMP_GE": lib.GreaterOrEqual, "SCMP_CMP_LT": lib.LessThan, "SCMP_CMP_LE": lib.LessOrEqual,
}

func (a fileArg) condition() (lib.Condition, error) {
	c := lib.Condition{Argument: a.Index, Value: a.Value}
	if a.Index > lastArg {
		return c, fmt.Errorf("index: %d is above %d", a.Index, lastArg)
	}
	op, ok := comparisons[a.Op]
	switch {
	case ok && a.ValueTwo != 0:
		return c, fmt.Errorf("valueTwo: %s allows only one value", a.Op)
	case ok:
		c.Operation = op
	case a.Op != "SCMP_CMP_MASKED_EQ":
		return c, fmt.Errorf("op: %q is unknown", a.Op)
	case a.Value == 0:
		return c, errors.New("value: a mask of no bits")
	case a.ValueTwo == 0:
		c.Operation = lib.BitsNotSet
	case a.ValueTwo == a.Value && bits.OnesCount64(a.Value) == 1:
		c.Operation = lib.BitsSet
	default:
		return c, fmt.Errorf("valueTwo: a mask can only be compared with 0 or, if it is a single bit, with itself, not with %#x", a.ValueTwo)
	}
	return c, nil
}

// holds reports whether all conditions of the filter hold. A task has no capabilities. For a filter
// without conditions it returns empty.
func (f fileFilter) holds(empty bool) (bool, error) {
	if len(f.Caps)+len(f.Arches)+len(f.MinKernel) == 0 {
		return empty, nil
	}
	info, err := native()
	if err != nil {
		return false, err
	}
	ok := len(f.Caps) == 0
	if len(f.Arches) > 0 {
		ok = ok && slices.Contains(f.Arches, goArch(info))
	}
	if f.MinKernel != "" {
		newEnough, err := kernelAtLeast(f.MinKernel)
		if err != nil {
			return false, fmt.Errorf("minKernel: %w", err)
		}
		ok = ok && newEnough
	}
	return ok, nil
}

func kernelAtLeast(want string) (bool, error) {
	w, err := version(want)
	if err != nil {
		return false, err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false, err
	}
	have, err := version(unix.ByteSliceToString(u.Release[:]))
	if err != nil {
		return false, err
	}
	return slices.Compare(have, w) >= 0, nil
}

// version parses the first two numbers of a kernel version.
func version(s string) ([]int, error) {
	major, rest, _ := strings.Cut(s, ".")
	minor := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		minor = rest[:i]
	}
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err != nil || err2 != nil {
		return nil, fmt.Errorf("%q is not a kernel version", s)
	}
	return []int{a, b}, nil
}
