package taskhook

import (
	"context"
	"fmt"
	"path"

	"github.com/golang/snappy"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// maxPayload is the maximum size of an uncompressed payload.
const maxPayload = 16 << 20

// dispatchHook writes the payload of a dispatched job into the task's local directory.
// Job.Payload is one snappy block, as on the wire and in the state.
type dispatchHook struct{}

func newDispatchHook(_ Config) hook.Hook {
	return &dispatchHook{}
}

func (*dispatchHook) Name() string { return "dispatch_payload" }

func (*dispatchHook) Prestart(_ context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	want := req.Task.DispatchPayload
	if want == nil || want.File == "" || req.Alloc.Job == nil || len(req.Alloc.Job.Payload) == 0 {
		resp.Done = true
		return nil
	}
	if req.Dir == nil {
		return errNoDir
	}
	if err := writePayload(req, want.File); err != nil {
		return &Fault{Type: nomad.TaskSetupFailure, Err: fmt.Errorf("write dispatch payload: %w", err)}
	}
	resp.Done = true
	return nil
}

func writePayload(req *TaskPrestartRequest, file string) error {
	packed := req.Alloc.Job.Payload
	size, err := snappy.DecodedLen(packed)
	if err != nil {
		return err
	}
	if size > maxPayload {
		return fmt.Errorf("uncompressed size is %d bytes, at most %d are allowed", size, maxPayload)
	}
	payload, err := snappy.Decode(nil, packed)
	if err != nil {
		return err
	}
	uid, gid := req.Owner.UID, req.Owner.GID
	name := path.Join(allocdir.LocalName, path.Clean("/"+req.Env.Expand(file)))
	into, err := req.Dir.Root().MakeAll(path.Dir(name), 0o777, uid, gid)
	if err != nil {
		return err
	}
	defer into.Close()
	return into.Replace(path.Base(name), payload, safefs.File{Mode: 0o644, UID: uid, GID: gid})
}
