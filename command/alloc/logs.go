package alloc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/joblogs"
	"github.com/open-nomad/open-nomad/command/term"
)

// defaultTail is the number of lines that -tail prints.
const defaultTail = 10

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
		return api.OriginEnd, defaultTail * averageLine
	}
	return api.OriginStart, 0
}

// copy copies in to e's output. With -n it writes only the last lines.
func (r *reading) copy(e *term.Env, in io.Reader) error {
	n := r.lines
	if r.tail && n < 0 && r.bytes < 0 {
		n = defaultTail
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
		Long: "Prints the standard output of a task, or its standard error with -stderr. The task may have exited.\n\n" +
			"With -job it prints the logs of all running allocations of a job. Each line begins with the ID of the allocation\n" +
			"and the name of the task, unless there is only one log. With -job and -f it follows standard output and standard\n" +
			"error, also of later allocations, until the job is dead.",
		Setup: func(f *term.Flags) term.Run {
			l := &logs{}
			l.declare(f)
			f.Lookup("job").Usage = "The argument is a job ID. Print the logs of all of its running allocations."
			f.Lookup("group").Usage = "With -job, only the allocations of this task `group`."
			f.StringVar(&l.task, "task", "", "The `task`. Required if the allocation has more than one, without -job.")
			f.BoolVar(&l.stderr, "stderr", false, "Print standard error.")
			f.BoolVar(&l.stdout, "stdout", false, "Print standard output. This is the default, except that\n-job -f prints both.")
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
	if l.job {
		return l.ofJob(ctx, e)
	}
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
	in := api.NewFrameReader(frames, errs, cancel)
	defer in.Close()
	if err := l.copy(e, in); err != nil && ctx.Err() == nil {
		return fmt.Errorf("Error reading %s of task %q: %w", kind, l.task, err)
	}
	return nil
}

// ofJob prints the logs of a job.
func (l *logs) ofJob(ctx context.Context, e *term.Env) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	if l.task == "" {
		l.task = e.Arg(1)
	}
	o := joblogs.Options{Job: e.Arg(0), Namespace: e.Namespace(), Group: l.group, Task: l.task, Types: l.types(), Lines: l.lines,
		Bytes: l.bytes}
	if l.tail && l.lines < 0 && l.bytes < 0 {
		o.Lines = defaultTail
	}
	out := &joblogs.Output{Stdout: e.Out, Stderr: e.Err, ColorStdout: e.Color(), ColorStderr: e.ColorErr(),
		Warn: func(text string) { e.Warnf("%s", text) }}
	if len(o.Types) == 1 {
		out.Stderr, out.ColorStderr = out.Stdout, out.ColorStdout
	}
	if l.follow {
		return joblogs.Follow(ctx, c, o, out)
	}
	return joblogs.Print(ctx, c, o, out)
}

// types returns the logs of each task to print.
func (l *logs) types() []string {
	both := l.stdout == l.stderr && (l.follow || l.stdout)
	switch {
	case both:
		return []string{api.FSLogNameStdout, api.FSLogNameStderr}
	case l.stderr:
		return []string{api.FSLogNameStderr}
	}
	return []string{api.FSLogNameStdout}
}
