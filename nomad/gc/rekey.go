package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// rekeyLogged is the number of objects between two progress lines in the log.
const rekeyLogged = 1000

// rekeyLeft is the metric of the number of variables and volumes that remain to be re-encrypted.
var rekeyLeft = []string{"nomad", "variables", "rekey_left"}

// rekey re-encrypts the variables and the secrets of volumes of rekeying keys with the active key, at most RekeyPerSecond. A
// key without any becomes inactive. If RekeyWithin is not enough, another evaluation
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
		if n := encryptedBy(c.sweep().snap, k.KeyID); n > 0 {
			c.cfg.Log.Info("objects were written with a rekeying key, another evaluation will re-encrypt them", "key", k.KeyID, "count", n)
			return c.rekeyLater(ctx, s)
		}
		if err := c.setKey(ctx, k, rootkey.Inactive); err != nil {
			return err
		}
	}
	return nil
}

// rekeyCount returns the number of variables and volumes of rekeying keys.
func rekeyCount(snap *state.Snapshot) (n int) {
	for k := range snap.RootKeys(nil) {
		if k.State == rootkey.Rekeying {
			n += encryptedBy(snap, k.KeyID)
		}
	}
	return n
}

// encryptedBy returns the number of variables and volumes of a key.
func encryptedBy(snap *state.Snapshot, kid string) (n int) {
	for range snap.VariablesByKey(nil, kid) {
		n++
	}
	for range snap.CSIVolumesByKey(nil, kid) {
		n++
	}
	return n
}

// rekeying is the progress of one evaluation.
type rekeying struct {
	snap *state.Snapshot
	pace <-chan time.Time // a tick for each object
	left int              // objects that remain
}

// rekeyOne re-encrypts the variables and the secrets of volumes of a key.
func (c *Collector) rekeyOne(ctx context.Context, r *rekeying, kid string) error {
	for v := range r.snap.VariablesByKey(nil, kid) {
		if err := r.wait(ctx); err != nil {
			return err
		}
		if err := c.rekeyVariable(ctx, &v.Metadata); err != nil {
			return fmt.Errorf("re-encrypt variable %q of namespace %q: %w", v.Path, v.Namespace, err)
		}
		r.done(c.cfg.Log, kid)
	}
	for v := range r.snap.CSIVolumesByKey(nil, kid) {
		if err := r.wait(ctx); err != nil {
			return err
		}
		req := &message.CSIVolumeResealRequest{VolumeID: v.ID,
			WriteRequest: message.WriteRequest{Region: c.cfg.Region, Namespace: v.Namespace}}
		if err := c.cfg.RPC.Call(ctx, "CSIVolume.Reseal", req, &message.GenericResponse{}); err != nil {
			return fmt.Errorf("re-encrypt the secrets of volume %q of namespace %q: %w", v.ID, v.Namespace, err)
		}
		r.done(c.cfg.Log, kid)
	}
	return nil
}

// wait waits until the next object may be re-encrypted.
func (r *rekeying) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.pace:
		return nil
	}
}

// done counts an object.
func (r *rekeying) done(log *slog.Logger, kid string) {
	if r.left--; r.left%rekeyLogged == 0 {
		log.Info("re-encrypting variables and secrets of volumes", "key", kid, "remaining", r.left)
	}
	metrics.SetGauge(rekeyLeft, float32(r.left))
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
		return fmt.Errorf("create evaluation to continue re-encrypting variables and secrets: %w", err)
	}
	return nil
}
