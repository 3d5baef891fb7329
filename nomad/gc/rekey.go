package gc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// rekeyLogged is the number of variables between two progress lines in the log.
const rekeyLogged = 1000

// rekeyLeft is the metric of the number of variables that remain to be re-encrypted.
var rekeyLeft = []string{"nomad", "variables", "rekey_left"}

// rekey re-encrypts the variables of rekeying keys with the active key, at most RekeyPerSecond. A
// key without variables becomes inactive. If RekeyWithin is not enough, another evaluation
// continues.
func (c *Collector) rekey(ctx context.Context, s *sweep) error {
	within, cancel := context.WithTimeout(ctx, c.cfg.RekeyWithin)
	defer cancel()
	pace := time.NewTicker(time.Second / time.Duration(c.cfg.RekeyPerSecond))
	defer pace.Stop()
	r := &rekeying{snap: s.snap, pace: pace.C, left: rekeyCount(s.snap)}
	for k := range s.snap.RootKeys(nil) {
		if k.State != rootkey.Rekeying {
			continue
		}
		if err := c.rekeyOne(within, r, k.KeyID); err != nil {
			if ctx.Err() == nil && within.Err() != nil {
				return c.rekeyLater(ctx, s)
			}
			return err
		}
		// Writes in flight may have used the key after the snapshot, while it was being retired.
		for v := range c.sweep().snap.VariablesByKey(nil, k.KeyID) {
			c.cfg.Log.Info("variable was written with a rekeying key, another evaluation will re-encrypt it", "key", k.KeyID, "path", v.Path)
			return c.rekeyLater(ctx, s)
		}
		if err := c.setKey(ctx, k, rootkey.Inactive); err != nil {
			return err
		}
	}
	return nil
}

// rekeyCount returns the number of variables of rekeying keys.
func rekeyCount(snap *state.Snapshot) (n int) {
	for k := range snap.RootKeys(nil) {
		if k.State != rootkey.Rekeying {
			continue
		}
		for range snap.VariablesByKey(nil, k.KeyID) {
			n++
		}
	}
	return n
}

// rekeying is the progress of one evaluation.
type rekeying struct {
	snap *state.Snapshot
	pace <-chan time.Time // a tick for each variable
	left int              // variables that remain
}

// rekeyOne re-encrypts the variables of a key.
func (c *Collector) rekeyOne(ctx context.Context, r *rekeying, kid string) error {
	for v := range r.snap.VariablesByKey(nil, kid) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.pace:
		}
		if err := c.rekeyVariable(ctx, &v.Metadata); err != nil {
			return fmt.Errorf("re-encrypt variable %q of namespace %q: %w", v.Path, v.Namespace, err)
		}
		if r.left--; r.left%rekeyLogged == 0 {
			c.cfg.Log.Info("re-encrypting variables", "key", kid, "remaining", r.left)
		}
		metrics.SetGauge(rekeyLeft, float32(r.left))
	}
	return nil
}

// rekeyVariable writes a variable without changes, unless it was changed or deleted: then the
// active key encrypted it, or it needs no key.
func (c *Collector) rekeyVariable(ctx context.Context, m *variable.Metadata) error {
	read := &message.VariablesReadRequest{Path: m.Path, QueryOptions: message.QueryOptions{Region: c.cfg.Region, Namespace: m.Namespace}}
	var is message.VariablesReadResponse
	if err := c.cfg.RPC.Call(ctx, "Variables.Read", read, &is); err != nil {
		return err
	}
	if is.Data == nil || is.Data.ModifyIndex != m.ModifyIndex {
		return nil
	}
	write := &message.VariablesApplyRequest{Op: variable.OpCAS, Var: is.Data,
		WriteRequest: message.WriteRequest{Region: c.cfg.Region, Namespace: m.Namespace}}
	err := c.cfg.RPC.Call(ctx, "Variables.Apply", write, &message.VariablesApplyResponse{})
	var coded *apierror.Coded
	if errors.As(err, &coded) && coded.Code == http.StatusNotFound {
		return nil // its namespace was deleted
	}
	return err
}

// rekeyLater creates an evaluation that continues the work.
func (c *Collector) rekeyLater(ctx context.Context, s *sweep) error {
	eval := nomad.NewCoreEval(nomad.CoreJobVariablesRekey, s.snap.Index(), time.Now())
	req := &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{eval}, WriteRequest: c.write()}
	if err := c.cfg.RPC.Call(ctx, "Eval.Create", req, &message.GenericResponse{}); err != nil {
		return fmt.Errorf("create evaluation to continue re-encrypting variables: %w", err)
	}
	return nil
}
