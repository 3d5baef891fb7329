package agent

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/command/term"
)

// Command is the agent command of the command line.
func Command() term.Command {
	return term.Command{
		Name: "agent", Local: true,
		Short: "Run an agent: a server, a client, or both",
		Long: `The configuration comes from files in HCL or JSON (-config, in the order given; of a directory all
*.hcl and *.json files), then from flags, which win.

-dev runs a server and a client in one process on 127.0.0.1 and keeps nothing. Every other agent
needs -data-dir and at least one of -server and -client.

SIGINT and SIGTERM stop the agent; its tasks go on and are found again by the next one.
SIGHUP reads the configuration again and takes over log_level.`,
		Setup: func(f *term.Flags) term.Run {
			o := declare(f.FlagSet)
			return func(ctx context.Context, e *term.Env) error { return o.run(ctx, e) }
		},
		Predict: complete.PredictNothing,
	}
}

// run is the agent command after its flags are parsed.
func (o *options) run(ctx context.Context, e *term.Env) error {
	set, err := o.settings()
	if err != nil {
		return err
	}
	a, err := New(set, o.settings, e.Err)
	if err != nil {
		return err
	}
	fmt.Fprint(e.Out, a.banner())
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	signal.Ignore(syscall.SIGPIPE)
	watching := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(watching)
		a.obey(ctx, hup)
	}()
	err = a.Run(ctx)
	cancel()
	<-watching
	return err
}

// obey reloads on each SIGHUP until ctx ends.
func (a *Agent) obey(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if err := a.Reload(); err != nil {
				a.log.Error("reload", "err", err)
			}
		}
	}
}
