package gc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// rekeyTold is how many variables go by between two lines of the log about progress.
const rekeyTold = 1000

// rekeyLeft is the metric of how many variables are still to be encrypted anew.
var rekeyLeft = []string{"nomad", "variables", "rekey_left"}

// rekey has what rekeying keys encrypted encrypted by the active one, not faster than
// RekeyPerSecond; a key that encrypts nothing any more becomes inactive. What it does
// not get done in RekeyWithin is for another evaluation.
func (c *Collector) rekey(ctx context.Context, s *sweep) error {
	within, cancel := context.WithTimeout(ctx, c.cfg.RekeyWithin)
	defer cancel()
	pace := time.NewTicker(time.Second / time.Duration(c.cfg.RekeyPerSecond))
	defer pace.Stop()
	left := rekeyCount(s.snap)
	for k := range s.snap.RootKeys(nil) {
		if k.State != nomad.RootKeyStateRekeying {
			continue
		}
		if err := c.rekeyOne(within, s.snap, k.KeyID, pace.C, &left); err != nil {
			if ctx.Err() == nil && within.Err() != nil {
				return c.rekeyLater(ctx, s)
			}
			return err
		}
		// Variables may have been written by it since the snapshot: what was on its way
		// when the key was retired.
		for v := range c.sweep().snap.VariablesByKey(nil, k.KeyID) {
			c.cfg.Log.Info("a variable was encrypted by a key that is rekeying: another evaluation takes it", "key", k.KeyID, "path", v.Path)
			return c.rekeyLater(ctx, s)
		}
		if err := c.setKey(ctx, k, nomad.RootKeyStateInactive); err != nil {
			return err
		}
	}
	return nil
}

// rekeyCount is how many variables rekeying keys encrypted.
func rekeyCount(snap *state.Snapshot) (n int) {
	for k := range snap.RootKeys(nil) {
		if k.State != nomad.RootKeyStateRekeying {
			continue
		}
		for range snap.VariablesByKey(nil, k.KeyID) {
			n++
		}
	}
	return n
}

// rekeyOne encrypts the variables of a key anew, one each time pace ticks.
func (c *Collector) rekeyOne(ctx context.Context, snap *state.Snapshot, kid string, pace <-chan time.Time, left *int) error {
	for v := range snap.VariablesByKey(nil, kid) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace:
		}
		if err := c.rekeyVariable(ctx, &v.VariableMetadata); err != nil {
			return fmt.Errorf("encrypt variable %q of namespace %q anew: %w", v.Path, v.Namespace, err)
		}
		if *left--; *left%rekeyTold == 0 {
			c.cfg.Log.Info("encrypting variables anew", "key", kid, "left", *left)
		}
		metrics.SetGauge(rekeyLeft, float32(*left))
	}
	return nil
}

// rekeyVariable writes a variable as it is, unless it has changed or is gone: then the
// active key has encrypted it, or nobody needs to.
func (c *Collector) rekeyVariable(ctx context.Context, m *nomad.VariableMetadata) error {
	read := &nomad.VariablesReadRequest{Path: m.Path, QueryOptions: nomad.QueryOptions{Region: c.cfg.Region, Namespace: m.Namespace}}
	var is nomad.VariablesReadResponse
	if err := c.cfg.RPC.Call(ctx, "Variables.Read", read, &is); err != nil {
		return err
	}
	if is.Data == nil || is.Data.ModifyIndex != m.ModifyIndex {
		return nil
	}
	write := &nomad.VariablesApplyRequest{Op: nomad.VarOpCAS, Var: is.Data, WriteRequest: nomad.WriteRequest{Region: c.cfg.Region, Namespace: m.Namespace}}
	err := c.cfg.RPC.Call(ctx, "Variables.Apply", write, &nomad.VariablesApplyResponse{})
	var coded *nomad.CodedError
	if errors.As(err, &coded) && coded.Code == http.StatusNotFound {
		return nil // its namespace is gone
	}
	return err
}

// rekeyLater asks for an evaluation that goes on with it.
func (c *Collector) rekeyLater(ctx context.Context, s *sweep) error {
	eval := nomad.NewCoreEval(nomad.CoreJobVariablesRekey, s.snap.Index(), time.Now())
	req := &nomad.EvalUpdateRequest{Evals: []*nomad.Evaluation{eval}, WriteRequest: c.write()}
	if err := c.cfg.RPC.Call(ctx, "Eval.Create", req, &nomad.GenericResponse{}); err != nil {
		return fmt.Errorf("ask for an evaluation that goes on encrypting variables: %w", err)
	}
	return nil
}
