package alloc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/httpclient"
	"github.com/open-nomad/open-nomad/command/term"
)

// averageLine is the assumed line length in bytes, used to request the last n lines.
const averageLine = 120

// reading holds the flags common to logs and fs.
type reading struct {
	follow, tail, job bool
	lines, bytes      int64
	group             string
}

func (r *reading) declare(f *term.Flags) {
	f.BoolVar(&r.follow, "f", false, "Follow: print new output as it is written.")
	f.BoolVar(&r.tail, "tail", false, "Start near the end.")
	f.Int64Var(&r.lines, "n", -1, "Print the last `n` lines. Implies -tail.")
	f.Int64Var(&r.bytes, "c", -1, "Print the last `n` bytes. Implies -tail.")
	f.BoolVar(&r.job, "job", false, "The argument is a job ID. Use one of its allocations.")
	f.StringVar(&r.group, "group", "", "With -job, use an allocation of this task `group`.")
}

// alloc returns the allocation of the first argument.
func (r *reading) alloc(ctx context.Context, e *term.Env) (found, error) {
	if r.job {
		return ofJob(ctx, e, e.Arg(0), r.group)
	}
	return find(ctx, e, e.Arg(0))
}

// start returns the origin and offset to read from.
func (r *reading) start() (string, int64) {
	switch {
	case r.bytes >= 0:
		return api.OriginEnd, r.bytes
	case r.lines >= 0:
		return api.OriginEnd, r.lines * averageLine
	case r.tail:
		return api.OriginEnd, 10 * averageLine
	}
	return api.OriginStart, 0
}

// copy copies in to e's output. With -n it writes only the last lines.
func (r *reading) copy(e *term.Env, in io.Reader) error {
	n := r.lines
	if r.tail && n < 0 && r.bytes < 0 {
		n = 10
	}
	if n < 0 || r.follow {
		_, err := io.Copy(e.Out, in)
		return err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	_, err = io.WriteString(e.Out, lastLines(string(text), int(n)))
	return err
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

func logsCommand() term.Command {
	return term.Command{
		Name: "alloc logs", Alias: []string{"logs"}, Args: "<allocation> [task]", MinArgs: 1, MaxArgs: 2,
		Short: "Print the output of a task",
		Long:  "Prints the standard output of a task, or its standard error with -stderr. The task may have exited.",
		Setup: func(f *term.Flags) term.Run {
			l := &logs{}
			l.declare(f)
			f.StringVar(&l.task, "task", "", "The `task`. Required if the allocation has more than one.")
			f.BoolVar(&l.stderr, "stderr", false, "Print standard error.")
			f.BoolVar(&l.stdout, "stdout", false, "Print standard output. This is the default.")
			f.Bool("verbose", false, "Show full IDs.")
			return l.run
		},
	}
}

type logs struct {
	reading
	task           string
	stdout, stderr bool
}

func (l *logs) run(ctx context.Context, e *term.Env) error {
	if l.stdout && l.stderr {
		return errors.New("Unable to support both stdout and stderr")
	}
	at, err := l.alloc(ctx, e)
	if err != nil {
		return err
	}
	if l.task == "" {
		l.task = e.Arg(1)
	}
	if l.task, err = task(at.alloc, l.task); err != nil {
		return err
	}
	kind := api.FSLogNameStdout
	if l.stderr {
		kind = api.FSLogNameStderr
	}
	return l.print(ctx, e, at, kind)
}

func (l *logs) print(ctx context.Context, e *term.Env, at found, kind string) error {
	origin, offset := l.start()
	cancel := make(chan struct{})
	frames, errs := at.client.AllocFS().Logs(at.alloc, l.follow, l.task, kind, origin, offset, cancel, query(ctx, at.alloc))
	in := httpclient.NewFrameReader(frames, errs, cancel)
	defer in.Close()
	if err := l.copy(e, in); err != nil && ctx.Err() == nil {
		return fmt.Errorf("Error reading %s of task %q: %w", kind, l.task, err)
	}
	return nil
}
