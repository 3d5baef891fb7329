package term

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
)

// Shown completes a command that asks an agent for one thing and prints it: as JSON
// or by a template when a flag says so, else as show does.
func Shown[T any](c Command, get func(ctx context.Context, c *api.Client) (T, error), show func(e *Env, v T)) Command {
	c.Setup = func(f *Flags) Run {
		var formats Formats
		formats.Declare(f)
		return func(ctx context.Context, e *Env) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			v, err := get(ctx, client)
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
