package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/term"
)

// agentCommand runs an agent.
func agentCommand() term.Command {
	return term.Command{
		Name: "agent", Local: true,
		Short: "Run an agent: a server, a client, or both",
		Long: `The configuration comes from files in HCL or JSON (-config, in the order given). In a directory, the
agent reads all *.hcl and *.json files. Flags take precedence over files.

-dev runs a server and a client in one process on 127.0.0.1 and keeps no data. Every other agent
needs -data-dir and at least one of -server and -client.

SIGINT and SIGTERM stop the agent. Its tasks continue, and the next agent recovers them. After SIGINT
the exit code is 1, unless leave_on_interrupt is set.
SIGHUP reloads the configuration. It applies the keys that need no restart, such as log_level, tls and
audit. The log names the other changed keys.`,
		Setup: func(f *term.Flags) term.Run {
			o := config.Declare(f.FlagSet)
			return func(ctx context.Context, e *term.Env) error { return run(ctx, e, o) }
		},
		Predict: complete.PredictNothing,
	}
}

// serverGCPercent is the GOGC of a server. Each write allocates some dozens of kilobytes, and
// every garbage collection scans the complete state. Go's default is 100.
const serverGCPercent = 200

// run runs the agent command after its flags are parsed.
func run(ctx context.Context, e *term.Env, o *config.Options) error {
	set, err := o.Settings()
	if err != nil {
		return err
	}
	a, err := New(set, o.Settings, e.Err)
	if err != nil {
		return err
	}
	if set.Server.Enabled && !set.Dev && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(serverGCPercent)
	}
	fmt.Fprint(e.Out, a.banner())
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	signal.Ignore(syscall.SIGPIPE)
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(ends)
	a.signals = ends
	var watching sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	watching.Go(func() { a.obey(ctx, hup) })
	watching.Go(func() { a.announce(ctx) })
	err = a.Run(ctx)
	cancel()
	watching.Wait()
	return err
}

// readyPatience is how long the start of a client's service waits for servers. They may start later than their clients.
const readyPatience = 10 * time.Second

// announce tells systemd that the agent is ready. After "systemctl start" the node of a client can run jobs, unless the
// servers have not accepted it within readyPatience.
func (a *Agent) announce(ctx context.Context) {
	if a.client != nil {
		select {
		case <-ctx.Done():
			return
		case <-a.client.Ready():
		case <-time.After(readyPatience):
		}
	}
	if err := notifySystemd("READY=1"); err != nil {
		a.log.Warn("notify systemd that the agent is ready", "err", err)
	}
}

// notifySystemd sends a state to systemd if NOTIFY_SOCKET is set.
func notifySystemd(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
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
