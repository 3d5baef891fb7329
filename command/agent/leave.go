package agent

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
)

const (
	// leaveLimit is the timeout for leaving a cluster.
	leaveLimit = 15 * time.Second
	// signalLag is how long to wait for the signal after its context has ended.
	signalLag = 100 * time.Millisecond
)

// errInterrupted means that SIGINT stopped the agent and leave_on_interrupt is off. Tools expect
// exit code 1 in this case.
var errInterrupted = errors.New("interrupted")

// departure is how the agent stops.
type departure struct {
	leaves bool  // the configuration asks for leaving on the signal
	err    error // why the exit code is not 0
}

// depart waits until ctx or failed ends. If a signal ended ctx and the configuration asks for leaving on
// it, depart drains the node, which must still run.
func (a *Agent) depart(ctx, failed context.Context) departure {
	select {
	case <-ctx.Done():
	case <-failed.Done():
		return departure{}
	}
	if a.signals == nil {
		return departure{}
	}
	select {
	case s := <-a.signals:
		if s == os.Interrupt && !a.set.LeaveOnInterrupt {
			return departure{err: errInterrupted}
		}
		if s == syscall.SIGTERM && !a.set.LeaveOnTerminate {
			return departure{}
		}
	case <-time.After(signalLag):
		return departure{}
	}
	return departure{leaves: true, err: a.drain(failed)}
}

// drain drains the node if the configuration asks for it. A second signal ends it.
func (a *Agent) drain(failed context.Context) error {
	spec, ok := a.set.DrainOnShutdown()
	if a.client == nil || !ok {
		return nil
	}
	ctx, cancel := context.WithCancelCause(failed)
	defer cancel(nil)
	done := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-a.signals:
			cancel(errInterrupted)
		case <-done:
		}
	}()
	err := a.client.Drain(ctx, spec)
	close(done)
	<-watching
	return err
}

// leave makes the server leave its cluster before it stops.
func (a *Agent) leave() {
	if a.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := a.server.Leave(ctx); err != nil {
		a.log.Warn("leave the cluster", "err", err)
	}
}

// members returns the gossip members for the API, or nil without a server.
func (a *Agent) members() httpapi.Members {
	if a.server == nil {
		return nil
	}
	return a.server
}

// unserved returns the function that lists the stored features that the server does not support,
// or nil without a server.
func (a *Agent) unserved() func() []string {
	if a.server == nil {
		return nil
	}
	return a.server.Unserved
}

// gossipKeys returns the gossip keys for the API, or nil without a server.
func (a *Agent) gossipKeys() httpapi.GossipKeys {
	if a.server == nil {
		return nil
	}
	return a.server
}
