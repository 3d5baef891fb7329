// Package term is what the CLI commands share: a Command is one row of the
// table in package command, and Env is the terminal and the agent it speaks to.
//
// A command declares its flags and returns what runs when they are parsed:
//
//	term.Command{Name: "job stop", Args: "<job>...", Short: "Stop a running job",
//		Setup: func(f *term.Flags) term.Run {
//			purge := f.Bool("purge", false, "Also remove the job from state")
//			return func(ctx context.Context, e *term.Env) error { ... }
//		}}
//
// Run's error goes to standard error and sets the exit code: 1, or the one of
// an ExitError. Tables, key-value lists, JSON and templates are written here, in
// one way. It holds no state and starts no goroutine.
package term
