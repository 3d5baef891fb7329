package alloc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/open-nomad/open-nomad/api"
	cmdterm "github.com/open-nomad/open-nomad/command/term"
)

func execCommand() cmdterm.Command {
	return cmdterm.Command{
		Name: "alloc exec", Alias: []string{"exec"}, Args: "<allocation> <command> [argument...]", MinArgs: 2, MaxArgs: -1,
		Short: "Run a command in a running task",
		Long: `Runs a command in the environment of a running task. It has the user, namespaces, cgroup, sandbox and
current environment variables of the task. The exit code is that of the command, or 1 if nomad itself
fails.

In a terminal, "~." at the beginning of a line closes the session and ends the command.`,
		Setup: func(f *cmdterm.Flags) cmdterm.Run {
			x := &execution{}
			x.declare(f)
			f.StringVar(&x.task, "task", "", "The `task`. Required if the allocation has more than one.")
			f.BoolVar(&x.job, "job", false, "The first argument is a job ID. Use one of its allocations.")
			f.StringVar(&x.group, "group", "", "With -job, use an allocation of this task `group`.")
			return x.run
		},
	}
}

type execution struct {
	task, group, escape string
	job, input          bool
	tty                 **bool
}

// declare declares the flags that commands and actions share.
func (x *execution) declare(f *cmdterm.Flags) {
	x.tty = f.OptBool("t", "Allocate a pseudo-terminal. Default: true if standard input is a terminal.")
	f.BoolVar(&x.input, "i", true, "Pass standard input to the command.")
	f.StringVar(&x.escape, "e", "~", "The escape `character` in a terminal, or \"none\".")
}

func (x *execution) run(ctx context.Context, e *cmdterm.Env) error {
	find := func() (found, error) { return find(ctx, e, e.Arg(0)) }
	if x.job {
		find = func() (found, error) { return ofJob(ctx, e, e.Arg(0), x.group) }
	}
	return x.execute(ctx, e, find, func(s call) (int, error) {
		code, err := s.at.client.Allocations().Exec(s.ctx, s.at.alloc, s.task, s.tty, e.Args[1:], s.in, s.out, s.err, s.sizes,
			query(s.ctx, s.at.alloc))
		if err != nil {
			err = fmt.Errorf("Failed to exec into task %q: %w", s.task, err)
		}
		return code, err
	})
}

// call is a session whose allocation and task are known.
type call struct {
	session
	ctx  context.Context // ends when the user leaves the session
	at   found
	task string
	tty  bool
}

// execute finds the allocation and the task, prepares the terminal and runs the session.
func (x *execution) execute(ctx context.Context, e *cmdterm.Env, find func() (found, error), run func(call) (int, error)) error {
	in, isTerminal := terminal(e.In)
	tty := isTerminal && x.input
	if *x.tty != nil {
		tty = **x.tty
	}
	if tty && !x.input {
		return errors.New("-t cannot be used with -i=false: a terminal needs standard input")
	}
	escape, err := escapeOf(x.escape)
	if err != nil {
		return err
	}
	at, err := find()
	if err != nil {
		return err
	}
	name, err := task(at.alloc, x.task)
	if err != nil {
		return err
	}
	s := session{in: e.In, out: e.Out, err: e.Err}
	if !x.input {
		s.in = nil
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if tty && isTerminal {
		restore, err := s.raw(ctx, in)
		if err != nil {
			return err
		}
		defer restore()
		if escape != 0 {
			s.in = newEscapes(s.in, escape, func() { leave(errLeft) })
		}
	}
	code, err := run(call{session: s, ctx: ctx, at: at, task: name, tty: tty})
	switch {
	case context.Cause(ctx) == errLeft:
		return errLeft
	case err != nil:
		return err
	case code != 0:
		return cmdterm.Exit(code)
	}
	return nil
}

// errLeft is the error of a session that was closed with the escape sequence.
var errLeft = errors.New("Session closed.")

// escapeOf parses the flag -e. 0 means no escape character.
func escapeOf(text string) (byte, error) {
	switch {
	case text == "none" || text == "":
		return 0, nil
	case len(text) == 1:
		return text[0], nil
	}
	return 0, fmt.Errorf("invalid value %q for -e: want one character, or none", text)
}

// terminal reports whether a stream is a terminal.
func terminal(in io.Reader) (*os.File, bool) {
	f, ok := in.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// session holds the local streams of a command.
type session struct {
	in       io.Reader
	out, err io.Writer
	sizes    <-chan api.TerminalSize
}

// raw puts the terminal into raw mode and sends its size to the command. The caller
// must always call restore, or the user's shell is left in raw mode.
func (s *session) raw(ctx context.Context, in *os.File) (restore func(), err error) {
	fd := int(in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("Failed to set up the terminal: %w", err)
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	sizes := make(chan api.TerminalSize, 1)
	s.sizes = sizes
	go func() {
		for {
			if width, height, err := term.GetSize(fd); err == nil {
				select {
				case sizes <- api.TerminalSize{Height: height, Width: width}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		term.Restore(fd, before) //nolint:errcheck // nothing can be done about an error
	}, nil
}
