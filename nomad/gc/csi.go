package gc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// claims lets package claims retry the release of ended claims at once that wait for long, instead of after their delay.
func (c *Collector) claims(ctx context.Context, s *sweep) error {
	var errs []error
	for v := range s.snap.CSIVolumes(nil) {
		if !s.includes(v) || !s.waitsLong(v, c.cfg.CSIClaimAfter) {
			continue
		}
		req := &message.CSIVolumeUnpublishRequest{VolumeID: v.ID, Claim: &csi.Claim{Mode: csi.ClaimGC}, WriteRequest: c.write()}
		req.Namespace = v.Namespace
		if err := c.cfg.RPC.Call(ctx, "CSIVolume.Unpublish", req, &message.CSIVolumeUnpublishResponse{}); err != nil {
			errs = append(errs, fmt.Errorf("release the claims on volume %q of namespace %q: %w", v.ID, v.Namespace, err))
		}
	}
	return errors.Join(errs...)
}

// waitsLong reports whether an ended claim of a volume has reached the age.
func (s *sweep) waitsLong(v *csi.Volume, age time.Duration) bool {
	for _, claim := range s.snap.EndedCSIClaims(v) {
		if s.old(claim.Since, age) {
			return true
		}
	}
	return false
}

// forVolume limits the sweep to a volume if the job ID of the evaluation names one, as in "csi-volume-claim-gc:data".
// Other evaluations have an index there.
func (s *sweep) forVolume(eval *nomad.Evaluation) {
	_, id, _ := strings.Cut(eval.JobID, ":")
	if id == "" || id == strconv.FormatUint(eval.ModifyIndex, 10) {
		return
	}
	_, err := strconv.ParseUint(id, 10, 64)
	named := err != nil
	for v := range s.snap.CSIVolumes(nil) {
		named = named || v.ID == id
	}
	if named {
		s.volume, s.force = id, true
		if s.namespace = eval.Namespace; s.namespace == nomad.CoreNamespace {
			s.namespace = ""
		}
	}
}

// includes reports whether the sweep includes a volume.
func (s *sweep) includes(v *csi.Volume) bool {
	return (s.volume == "" || s.volume == v.ID) && (s.namespace == "" || s.namespace == v.Namespace)
}

// plugins collects the records of CSI plugins without instances and jobs. State removes a record with its last job or
// instance, so that there are none unless another build has written them.
func (c *Collector) plugins(ctx context.Context, s *sweep) error {
	var errs []error
	for p := range s.snap.CSIPlugins(nil) {
		if !p.Empty() || !s.old(p.ModifyTime, c.cfg.CSIPluginAfter) {
			continue
		}
		req := &message.CSIPluginDeleteRequest{ID: p.ID, QueryOptions: message.QueryOptions{Region: c.cfg.Region}}
		err := c.cfg.RPC.Call(ctx, "CSIPlugin.Delete", req, &message.CSIPluginDeleteResponse{})
		switch {
		case err == nil:
			c.cfg.Log.Debug("collected CSI plugin", "plugin", p.ID)
		case !strings.Contains(err.Error(), csi.ErrPluginInUse.Error()): // used again meanwhile
			errs = append(errs, fmt.Errorf("delete CSI plugin %q: %w", p.ID, err))
		}
	}
	return errors.Join(errs...)
}
