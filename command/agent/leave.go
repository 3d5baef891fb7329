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

// leave makes the server leave its cluster before it stops, if the configuration asks for that on
// this signal.
func (a *Agent) leave() error {
	if a.signals == nil {
		return nil
	}
	select {
	case s := <-a.signals:
		if s == os.Interrupt && !a.set.LeaveOnInterrupt {
			return errInterrupted
		}
		if s == syscall.SIGTERM && !a.set.LeaveOnTerminate {
			return nil
		}
	case <-time.After(signalLag):
		return nil
	}
	if a.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := a.server.Leave(ctx); err != nil {
		a.log.Warn("leave the cluster", "err", err)
	}
	return nil
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
