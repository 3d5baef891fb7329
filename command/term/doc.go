// Package term is shared by all CLI commands. A Command is one row of the table in package
// command. Env gives it the terminal, its arguments and the API client.
//
// A command declares its flags and returns the function that runs after they are parsed:
//
//	term.Command{Name: "job stop", Args: "<job>...", Short: "Stop a running job",
//		Setup: func(f *term.Flags) term.Run {
//			purge := f.Bool("purge", false, "Also remove the job from state")
//			return func(ctx context.Context, e *term.Env) error { ... }
//		}}
//
// The error of Run is printed to standard error and sets the exit code: 1, or the code of
// an ExitError. The package also formats tables, key-value lists, JSON and templates. It has
// no state.
package term
