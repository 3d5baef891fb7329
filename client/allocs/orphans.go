package allocs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Delays between attempts to end processes without an allocation.
const (
	orphanBackoffMin = time.Second
	orphanBackoffMax = time.Minute
)

// EndOrphans ends the processes of earlier agents whose allocations could not be restored, and then removes these
// allocations. It retries until every driver has listed its tasks and the orphans have ended. later are allocations that
// Follow restores.
func (s *Set) EndOrphans(ctx context.Context, later []*nomad.Allocation) error {
	err := s.endOrphans(ctx, later)
	close(s.orphans)
	if err == nil {
		s.removeUnrestored()
	}
	return err
}

func (s *Set) endOrphans(ctx context.Context, later []*nomad.Allocation) error {
	back := backoff.Backoff{Min: orphanBackoffMin, Max: orphanBackoffMax}
	for {
		err := s.endOrphansOnce(ctx, later)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.log.Warn("end tasks without an allocation", "err", err)
		if err := back.WaitJitter(ctx); err != nil {
			return err
		}
	}
}

// endOrphansOnce compares the tasks of the drivers with the stored handles. It lists the tasks
// first. A handle is stored before its task starts, so a listed task without a handle is not
// one that is just starting.
func (s *Set) endOrphansOnce(ctx context.Context, later []*nomad.Allocation) error {
	listed, failed := s.listTasks(ctx)
	if len(listed) == 0 {
		return failed
	}
	owned, err := s.ownedTasks(later)
	if err != nil {
		return err
	}
	errs := []error{failed}
	for id, task := range listed {
		if owned[id] {
			continue
		}
		err := task.driver.DestroyTask(id, true)
		if err != nil && !errors.Is(err, drivers.ErrTaskNotFound) {
			errs = append(errs, fmt.Errorf("destroy task %s: %w", id, err))
			continue
		}
		if task.State == drivers.TaskRunning {
			alloc, rest, _ := strings.Cut(id, "/")
			name, _, _ := strings.Cut(rest, "/")
			s.log.Warn("ended a task without an allocation", "alloc", alloc, "task", name, "id", id)
		}
	}
	return errors.Join(errs...)
}

// listedTask is a task listed by a driver.
type listedTask struct {
	drivers.TaskStatus
	driver drivers.Driver
}

// listTasks returns the tasks of all drivers that support listing, by ID.
func (s *Set) listTasks(ctx context.Context) (map[string]listedTask, error) {
	listed := map[string]listedTask{}
	var errs []error
	for _, name := range s.cfg.Drivers.Names() {
		d, err := s.cfg.Drivers.Driver(name)
		if err != nil {
			return nil, err
		}
		lister, ok := d.(drivers.Lister)
		if !ok {
			continue
		}
		tasks, err := lister.ListTasks(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("list tasks of driver %s: %w", name, err))
		}
		for _, task := range tasks {
			listed[task.ID] = listedTask{task, d}
		}
	}
	return listed, errors.Join(errs...)
}

// ownedTasks returns the IDs of the tasks with stored handles in allocations that the node
// runs or will restore. Tasks that are still being recovered are included.
func (s *Set) ownedTasks(later []*nomad.Allocation) (map[string]bool, error) {
	var ids []string
	for _, e := range s.All() {
		ids = append(ids, e.ID)
	}
	for _, a := range later {
		ids = append(ids, a.ID)
	}
	owned := map[string]bool{}
	for _, id := range ids {
		tasks, err := s.db.Tasks(id)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			if t.Local == nil || t.Local.TaskHandle == nil {
				continue
			}
			if _, err := s.cfg.Drivers.Driver(t.Local.TaskHandle.Driver); err == nil {
				owned[t.Local.TaskHandle.TaskID] = true
			}
		}
	}
	return owned, nil
}
