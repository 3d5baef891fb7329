package term

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
)

// Ask calls an agent and returns the value to print.
type Ask[T any] func(ctx context.Context, e *Env, c *api.Client) (T, error)

// Query completes a command that calls an agent and prints the answer: as JSON or with a
// template if the flags are set, else with show. declare declares additional flags.
func Query[T any](c Command, declare func(*Flags) Ask[T], show func(e *Env, v T)) Command {
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

// Shown is Answered for a command without arguments and additional flags.
func Shown[T any](c Command, get func(ctx context.Context, c *api.Client) (T, error), show func(e *Env, v T)) Command {
	return Query(c, func(*Flags) Ask[T] {
		return func(ctx context.Context, _ *Env, c *api.Client) (T, error) { return get(ctx, c) }
	}, show)
}

// Action completes a command that calls an agent and prints the line that ask returns.
func Action(c Command, declare func(*Flags) Ask[string]) Command {
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

// Deletion completes a command that deletes the object named by its argument. what is the
// kind of the object in messages.
func Deletion(c Command, what string, remove func(c *api.Client, name string, w *api.WriteOptions) (*api.WriteMeta, error)) Command {
	c.MinArgs, c.MaxArgs = 1, 1
	return Action(c, func(*Flags) Ask[string] {
		return func(ctx context.Context, e *Env, c *api.Client) (string, error) {
			if _, err := remove(c, e.Arg(0), (&api.WriteOptions{}).WithContext(ctx)); err != nil {
				return "", fmt.Errorf("Error deleting %s: %w", what, err)
			}
			return fmt.Sprintf("Successfully deleted %s %q!", what, e.Arg(0)), nil
		}
	})
}
