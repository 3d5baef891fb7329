package drivers

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// signals are the names that a job may use, without SIG.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "ILL": syscall.SIGILL,
	"TRAP": syscall.SIGTRAP, "ABRT": syscall.SIGABRT, "BUS": syscall.SIGBUS, "FPE": syscall.SIGFPE,
	"KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1, "SEGV": syscall.SIGSEGV, "USR2": syscall.SIGUSR2,
	"PIPE": syscall.SIGPIPE, "ALRM": syscall.SIGALRM, "TERM": syscall.SIGTERM, "CHLD": syscall.SIGCHLD,
	"CONT": syscall.SIGCONT, "STOP": syscall.SIGSTOP, "TSTP": syscall.SIGTSTP, "TTIN": syscall.SIGTTIN,
	"TTOU": syscall.SIGTTOU, "URG": syscall.SIGURG, "XCPU": syscall.SIGXCPU, "XFSZ": syscall.SIGXFSZ,
	"WINCH": syscall.SIGWINCH, "IO": syscall.SIGIO, "PWR": syscall.Signal(30), "SYS": syscall.SIGSYS,
}

// ParseSignal returns the signal of a name such as "SIGTERM", "term" or "SIGUSR1". An unknown name
// is an error, never signal 0.
func ParseSignal(name string) (syscall.Signal, error) {
	sig, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
	if !ok {
		return 0, fmt.Errorf("unknown signal %q", name)
	}
	return sig, nil
}

// SignalNames lists every name that ParseSignal accepts, with SIG, sorted.
func SignalNames() []string {
	names := make([]string, 0, len(signals))
	for n := range signals {
		names = append(names, "SIG"+n)
	}
	slices.Sort(names)
	return names
}
