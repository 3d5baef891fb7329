package term

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"
)

// Run runs a command after its flags are parsed.
type Run func(ctx context.Context, e *Env) error

// Command is one command of the CLI.
type Command struct {
	Name  string // such as "job run"
	Args  string // the arguments in the usage line
	Short string // one line
	Long  string // paragraphs and indented examples for -help
	Alias []string
	// Hidden commands are not listed.
	Hidden bool
	// Local commands do not call an agent and have no general flags.
	Local bool
	// MinArgs and MaxArgs limit the number of arguments. MaxArgs -1 means no limit.
	MinArgs, MaxArgs int
	// UsageCode is the exit code for invalid flags and arguments, 0 for the default of 1.
	UsageCode int
	// Refused names the feature of a command that this version does not have. Such a
	// command takes any flags and arguments: see Refuse.
	Refused string
	// Setup declares the flags and returns the function that runs.
	Setup func(f *Flags) Run
	// Example lists examples for -help, one a line.
	Example string
	// Predict completes the arguments in a shell, and PredictFlag the value of a flag. They may be nil.
	Predict     complete.Predictor
	PredictFlag func(f *flag.Flag) complete.Predictor
}

// ExitError ends the program with an exit code. If Err is nil, nothing is printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit returns an error that ends the program with code and prints nothing.
func Exit(code int) error { return &ExitError{Code: code} }

// Flags is a flag set with repeatable and optional flags.
type Flags struct{ *flag.FlagSet }

// Strings declares a flag that may be repeated.
func (f *Flags) Strings(name, usage string) *[]string {
	v := &stringList{}
	f.Var(v, name, usage)
	return (*[]string)(v)
}

type stringList []string

func (l *stringList) String() string     { return strings.Join(*l, ",") }
func (l *stringList) Set(v string) error { *l = append(*l, v); return nil }

// Detail declares the flag -verbose.
func (f *Flags) Detail(usage string) *Detail {
	d := new(Detail)
	f.DetailVar(d, usage)
	return d
}

// DetailVar declares the flag -verbose and stores it in d.
func (f *Flags) DetailVar(d *Detail, usage string) { f.BoolVar((*bool)(d), "verbose", false, usage) }

// OptBool declares a flag that is true, false or unset (nil).
func (f *Flags) OptBool(name, usage string) **bool {
	var v *bool
	f.optBoolVar(&v, name, usage)
	return &v
}

func (f *Flags) optBoolVar(v **bool, name, usage string) {
	f.BoolFunc(name, usage, func(s string) error {
		b := s == "true" || s == "1"
		if !b && s != "false" && s != "0" {
			return fmt.Errorf("%q is not true or false", s)
		}
		*v = &b
		return nil
	})
}

// Adapt returns the command as a cli.Command with the given streams.
func (c Command) Adapt(in io.Reader, out, err io.Writer) cli.Command {
	return &adapted{Command: c, in: in, out: out, err: err}
}

type adapted struct {
	Command
	in       io.Reader
	out, err io.Writer
}

// flags declares all flags of the command.
func (a *adapted) flags() (*Flags, *general, Run) {
	f := &Flags{flag.NewFlagSet(a.Name, flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	g := &general{}
	if !a.Local {
		g.declare(f.FlagSet)
	}
	return f, g, a.Setup(f)
}

// FlagSet returns all flags of the command.
func (c Command) FlagSet() *flag.FlagSet {
	f, _, _ := (&adapted{Command: c}).flags()
	return f.FlagSet
}

// OwnFlags returns the flags that the command declares itself.
func (c Command) OwnFlags() *flag.FlagSet {
	own := &Flags{flag.NewFlagSet(c.Name, flag.ContinueOnError)}
	c.Setup(own)
	return own.FlagSet
}

// GeneralFlags returns the flags of every command that calls an agent.
func GeneralFlags() *flag.FlagSet {
	f := flag.NewFlagSet("general", flag.ContinueOnError)
	(&general{}).declare(f)
	return f
}

// Synopsis returns the line in the list of commands.
func (a *adapted) Synopsis() string { return a.Short }

// Help returns the text of -help.
func (a *adapted) Help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: nomad %s [options] %s\n\n  %s.\n", a.Name, a.Args, strings.TrimSuffix(a.Short, "."))
	if a.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", indent(Wrap(strings.Trim(a.Long, "\n"), helpWidth-2), "  "))
	}
	if a.Example != "" {
		fmt.Fprintf(&b, "\nExample:\n\n%s\n", indent(a.Example, "  "))
	}
	writeFlags(&b, "Options", a.OwnFlags())
	if !a.Local {
		writeFlags(&b, "General options", GeneralFlags())
	}
	return strings.TrimRight(b.String(), "\n")
}

// helpWidth is the length of the longest line of a help text.
const helpWidth = 80

func writeFlags(b *strings.Builder, title string, f *flag.FlagSet) {
	first := true
	f.VisitAll(func(fl *flag.Flag) {
		if first {
			fmt.Fprintf(b, "\n%s:\n", title)
			first = false
		}
		arg, usage := flag.UnquoteUsage(fl)
		if arg != "" {
			arg = "=<" + arg + ">"
		}
		fmt.Fprintf(b, "\n  -%s%s\n%s\n", fl.Name, arg, indent(Wrap(usage, helpWidth-4), "    "))
	})
}

func indent(text, by string) string {
	return strings.ReplaceAll(by+strings.ReplaceAll(text, "\n", "\n"+by), "\n"+by+"\n", "\n\n")
}

// Run parses the arguments, runs the command and returns the exit code.
func (a *adapted) Run(args []string) int {
	run := *a
	run.out = recorded(a.out)
	return run.written(run.runWith(args, nil))
}

// runWith is Run with general flags that are already parsed, if inherited is not nil.
func (a *adapted) runWith(args []string, inherited *general) int {
	f, g, run := a.flags()
	if inherited != nil {
		*g = *inherited
	}
	if a.Refused != "" {
		return a.refuse(args)
	}
	err := f.Parse(args)
	rest := f.Args()
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(a.out, a.Help())
		return 0
	}
	if err == nil {
		err = a.checkArgs(rest)
	} else {
		err = flagError(err, f.FlagSet)
	}
	if err != nil {
		fmt.Fprintf(a.err, "%v\nFor additional help try 'nomad %s -help'\n", err, a.Name)
		return cmp.Or(a.UsageCode, 1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !a.Local {
		at := g.cluster(ctx)
		if at.err != nil {
			return a.report(at.err)
		}
		if at.ignored != "" {
			fmt.Fprintln(a.err, at.ignored)
		}
	}
	env := &Env{In: a.in, Out: a.out, Err: a.err, Args: rest, general: g}
	if err = run(ctx, env); err == nil && env.unanswered {
		err = errUnanswered
	}
	code := a.report(g.withRemedy(err))
	if hint := g.contextHint(err); hint != "" {
		fmt.Fprintln(a.err, hint)
	}
	return code
}

func (a *adapted) checkArgs(args []string) error {
	switch n := len(args); {
	case n < a.MinArgs, a.MaxArgs >= 0 && n > a.MaxArgs:
		if a.Args == "" {
			return fmt.Errorf("This command takes no arguments, got %d: %s", n, strings.Join(args, " "))
		}
		return fmt.Errorf("This command takes %s, got %d arguments", a.Args, n)
	}
	return nil
}

// report prints the error of a run and returns the exit code.
func (a *adapted) report(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.Err != nil {
			fmt.Fprintln(a.err, exit.Err)
		}
	default:
		exit = &ExitError{Code: 1}
		fmt.Fprintln(a.err, err)
	}
	if hint := tlsHint(err); hint != "" {
		fmt.Fprintln(a.err, hint)
	}
	return exit.Code
}

// AutocompleteFlags completes the names of flags.
func (a *adapted) AutocompleteFlags() complete.Flags {
	f, _, _ := a.flags()
	out := complete.Flags{}
	f.VisitAll(func(fl *flag.Flag) {
		name := "-" + fl.Name
		switch {
		case isBool(fl): // no value follows, so the next word is an argument
			out[name] = complete.PredictNothing
		case a.PredictFlag == nil:
			out[name] = complete.PredictAnything
		default:
			out[name] = a.PredictFlag(fl)
		}
	})
	return out
}

// isBool reports whether a flag needs no value.
func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// EnvOf returns the environment of the command for arguments that may be incomplete, to complete
// the next one. What follows an invalid flag is not parsed. A token command of the context does not
// run: it may ask for a password, and a shell runs a completion at each press of a key.
func (c Command) EnvOf(args []string) *Env {
	f, g, _ := (&adapted{Command: c}).flags()
	_ = f.Parse(args) // an incomplete flag is what is being completed
	g.completing = true
	return &Env{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Args: f.Args(), general: g}
}

// AutocompleteArgs completes the arguments.
func (a *adapted) AutocompleteArgs() complete.Predictor {
	if a.Predict == nil {
		return complete.PredictNothing
	}
	return a.Predict
}

// RunAs runs another command with args and the same streams and general flags. It returns
// the exit code.
func (e *Env) RunAs(c Command, args []string) int {
	a := &adapted{Command: c, in: e.In, out: e.Out, err: e.Err}
	return a.runWith(args, e.general)
}
