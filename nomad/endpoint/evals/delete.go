package evals

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// deleteBatch is the maximum number of evaluations in one write. Schedulers stand still during the
// deletion, so that several writes are as good as one.
const deleteBatch = 728

// Delete deletes evaluations by ID or by filter, in all namespaces. The evaluation broker must be paused.
// IDs are all deleted or none. A filter skips evaluations that are not removable.
func (s *Service) Delete(ctx context.Context, _ *rpc.Call, req *message.EvalDeleteRequest) (*message.EvalDeleteResponse, error) {
	switch n := len(req.EvalIDs); {
	case n > 0 && req.Filter != "":
		return nil, apierror.Errorf(http.StatusBadRequest, "evals cannot be deleted by both ID and filter")
	case n == 0 && req.Filter == "":
		return nil, apierror.Errorf(http.StatusBadRequest, "evals must be deleted by either ID or filter")
	case n > nomad.MaxUUIDsPerWriteRequest:
		return nil, apierror.Errorf(http.StatusBadRequest, "request includes %d evaluation IDs: the limit is %d", n,
			nomad.MaxUUIDsPerWriteRequest)
	}
	snap := s.Snapshot()
	if _, cfg := snap.SchedulerConfig(nil); cfg == nil || !cfg.PauseEvalBroker {
		return nil, apierror.Errorf(http.StatusBadRequest,
			"eval broker is enabled; it must be paused to delete evals (pause_eval_broker of the scheduler configuration)")
	}
	list := deletableIDs
	if req.Filter != "" {
		list = deletableByFilter
	}
	ids, err := list(snap, req)
	if err != nil {
		return nil, err
	}
	return s.deleteAll(ctx, ids)
}

// deletableIDs returns the IDs of the request, or an error if one cannot be deleted.
func deletableIDs(snap *state.Snapshot, req *message.EvalDeleteRequest) ([]string, error) {
	for _, id := range req.EvalIDs {
		e := snap.Eval(nil, id)
		if e == nil {
			return nil, apierror.Errorf(http.StatusNotFound, "eval not found")
		}
		if !snap.EvalRemovable(e) {
			return nil, apierror.Errorf(http.StatusBadRequest, "eval %s is not safe to delete", id)
		}
	}
	return req.EvalIDs, nil
}

// deletableByFilter returns the IDs of the removable evaluations that match the filter.
func deletableByFilter(snap *state.Snapshot, req *message.EvalDeleteRequest) ([]string, error) {
	matching := Listing(&message.QueryOptions{Filter: req.Filter, AuthToken: req.AuthToken}, page.ByID)
	matching.Keep = snap.EvalRemovable
	found, _, err := matching.Page(snap.Evals(nil))
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(found))
	for i, e := range found {
		ids[i] = e.ID
	}
	return ids, nil
}

// deleteAll deletes evaluations in batches.
func (s *Service) deleteAll(ctx context.Context, ids []string) (*message.EvalDeleteResponse, error) {
	out := &message.EvalDeleteResponse{}
	out.Index = s.Snapshot().Index()
	for len(ids) > 0 {
		n := min(len(ids), deleteBatch)
		index, err := s.Apply(ctx, message.EvalDeleteRequestType, &message.EvalReapRequest{Evals: ids[:n], UserInitiated: true})
		if err != nil {
			return nil, err
		}
		out.Index = index
		out.Count += n
		ids = ids[n:]
	}
	return out, nil
}
