package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/client/portforward"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// forwards handles port forwarding. It counts the connections, and limits their events.
type forwards struct {
	allocs   *allocs.Set
	disabled bool
	limits   *exec.Limits
	notes    portforward.Notes
	log      *slog.Logger
}

// forward connects the stream to a port of an allocation. Each connection is a session.
func (h *forwards) forward(ctx context.Context, call *rpc.Call, req *message.AllocPortForwardRequest, st *rpc.Stream) error {
	if h.disabled {
		return apierror.Errorf(http.StatusForbidden,
			"port forwarding is disabled on this node by disable_remote_exec in its client block: %v", apierror.ErrPermissionDenied)
	}
	e, err := h.allocs.Find(req.AllocID)
	if err != nil {
		return err
	}
	if e.Runner.State().ClientStatus != nomad.AllocClientStatusRunning {
		return apierror.Errorf(http.StatusBadRequest, "allocation %s is not running", req.AllocID)
	}
	target, err := portforward.Resolve(e.Runner.Alloc(), placeOf(e.Runner), req.Port)
	if err != nil {
		return err
	}
	release, err := h.limits.Take(req.AllocID)
	if err != nil {
		return err
	}
	defer release()
	who := audit.AuthOf(call.Identity)
	log := h.log.With("alloc", req.AllocID, "port", req.Port, "accessor", who.AccessorID, "kind", who.Kind)
	conn, err := target.Dial(ctx)
	if err != nil {
		log.Info("port forwarding failed", "err", err)
		return err
	}
	log.Info("port forwarding connection opened")
	begun := time.Now()
	if h.notes.Due(portforward.Note{Alloc: req.AllocID, Port: req.Port, Accessor: who.AccessorID}, begun) {
		text := fmt.Sprintf("Port %s is forwarded to a caller", req.Port)
		if who.AccessorID != "" {
			text += " with the ACL token of accessor " + who.AccessorID
		}
		e.Runner.EmitAll(&nomad.TaskEvent{Type: nomad.TaskPortForward, Message: text, DisplayMessage: text})
	}
	_, err = exec.Session{Run: func(ctx context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
		return portforward.Pump(ctx, conn, o)
	}}.Serve(ctx, st)
	log.Info("port forwarding connection closed", "took", time.Since(begun).Round(time.Millisecond))
	if errors.Is(err, exec.ErrGone) {
		return nil
	}
	return err
}

// placeOf returns the network of an allocation. Its tasks matter only if they share the network of the node.
func placeOf(r *allocrunner.Runner) portforward.Place {
	netNS, _ := r.Network()
	at := portforward.Place{NetNS: netNS}
	if netNS != "" {
		return at
	}
	for name, t := range r.Tasks() {
		at.Tasks = append(at.Tasks, portforward.Task{Name: name, Processes: t.Processes, Ports: t.PortMap()})
	}
	return at
}
