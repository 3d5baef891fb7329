package term

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
)

// Ask gets what a command prints from an agent.
type Ask[T any] func(ctx context.Context, e *Env, c *api.Client) (T, error)

// Answered completes a command that asks an agent and prints the answer: as JSON or by a
// template when a flag says so, else as show does. declare declares the flags that the
// command has beside these.
func Answered[T any](c Command, declare func(*Flags) Ask[T], show func(e *Env, v T)) Command {
	c.Setup = func(f *Flags) Run {
		var formats Formats
		formats.Declare(f)
		ask := declare(f)
		return func(ctx context.Context, e *Env) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			v, err := ask(ctx, e, client)
			if err != nil {
				return err
			}
			if formats.Wanted() {
				return formats.Print(e, v)
			}
			show(e, v)
			return nil
		}
	}
	return c
}

// Shown is Answered for a command that has no arguments and no flags of its own.
func Shown[T any](c Command, get func(ctx context.Context, c *api.Client) (T, error), show func(e *Env, v T)) Command {
	return Answered(c, func(*Flags) Ask[T] {
		return func(ctx context.Context, _ *Env, c *api.Client) (T, error) { return get(ctx, c) }
	}, show)
}

// Told completes a command that has an agent do something and prints a line about it.
func Told(c Command, declare func(*Flags) Ask[string]) Command {
	c.Setup = func(f *Flags) Run {
		ask := declare(f)
		return func(ctx context.Context, e *Env) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			line, err := ask(ctx, e, client)
			if err != nil {
				return err
			}
			e.Println(line)
			return nil
		}
	}
	return c
}

// Deletion completes a command that makes servers forget what its argument names; what
// says what that is.
func Deletion(c Command, what string, forget func(c *api.Client, name string, w *api.WriteOptions) (*api.WriteMeta, error)) Command {
	c.MinArgs, c.MaxArgs = 1, 1
	return Told(c, func(*Flags) Ask[string] {
		return func(ctx context.Context, e *Env, c *api.Client) (string, error) {
			if _, err := forget(c, e.Arg(0), (&api.WriteOptions{}).WithContext(ctx)); err != nil {
				return "", fmt.Errorf("Error deleting %s: %w", what, err)
			}
			return fmt.Sprintf("Successfully deleted %s %q!", what, e.Arg(0)), nil
		}
	})
}
