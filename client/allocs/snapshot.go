package allocs

import (
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/client/migrate"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/migratetoken"
)

// drainWait bounds the wait for the tasks of an allocation whose snapshot is requested.
const drainWait = 30 * time.Second

// ServeSnapshot answers a request for the data of a finished allocation of this node. The token
// is always required.
func (s *Set) ServeSnapshot(w http.ResponseWriter, r *http.Request, alloc string) error {
	token, err := migratetoken.New(alloc, s.cfg.Calls.Identity.Secret())
	if err != nil || !token.Matches(r.Header.Get(migrate.TokenHeader)) {
		return apierror.Denied("the migrate token is missing or wrong")
	}
	e, release, err := s.hold(alloc)
	if err != nil {
		return err
	}
	defer release()
	late := time.NewTimer(drainWait)
	defer late.Stop()
	select {
	case <-e.ended:
	case <-r.Context().Done():
		return r.Context().Err()
	case <-late.C:
		return apierror.Errorf(http.StatusConflict, "allocation %s still runs: its data is sent after its end", alloc)
	}
	root, err := safefs.Open(s.cfg.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := root.Sub(alloc)
	if err != nil {
		return err
	}
	defer dir.Close()
	var tasks []string
	if group := e.Runner.Group(); group != nil {
		for _, t := range group.Tasks {
			tasks = append(tasks, t.Name)
		}
	}
	found := map[int]string{}
	taskOf := func(uid int) string {
		if _, ok := found[uid]; !ok {
			found[uid] = Peers{Set: s}.TaskOf(alloc, uid)
		}
		return found[uid]
	}
	return migrate.Source{Dir: dir, AllocID: alloc, Tasks: tasks, TaskOf: taskOf}.Serve(w, r)
}
