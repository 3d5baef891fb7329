package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client/servers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Delays between attempts to end processes without an allocation.
const (
	orphanBackoffMin = time.Second
	orphanBackoffMax = time.Minute
)

// endOrphans ends the processes of earlier agents whose allocations could not be restored. It
// retries until every driver has listed its tasks and the orphans have ended. The allocations
// in waiting are restored later.
func (c *Client) endOrphans(ctx context.Context, waiting []*nomad.Allocation) error {
	back := servers.Backoff{Min: orphanBackoffMin, Max: orphanBackoffMax}
	for {
		err := c.endOrphansOnce(ctx, waiting)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.log.Warn("end tasks without an allocation", "err", err)
		if err := back.Wait(ctx); err != nil {
			return err
		}
	}
}

// endOrphansOnce compares the tasks of the drivers with the stored handles. It lists the tasks
// first. A handle is stored before its task starts, so a listed task without a handle is not
// one that is just starting.
func (c *Client) endOrphansOnce(ctx context.Context, waiting []*nomad.Allocation) error {
	listed, failed := c.listTasks(ctx)
	if len(listed) == 0 {
		return failed
	}
	owned, err := c.ownedTasks(waiting)
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
			c.log.Warn("ended a task without an allocation", "alloc", alloc, "task", name, "id", id)
		}
	}
	return errors.Join(errs...)
}

// heldTask is a task listed by a driver.
type heldTask struct {
	drivers.TaskStatus
	driver drivers.Driver
}

// listTasks returns the tasks of all drivers that support listing, by ID.
func (c *Client) listTasks(ctx context.Context) (map[string]heldTask, error) {
	listed := map[string]heldTask{}
	var errs []error
	for _, name := range c.drivers.Names() {
		d, err := c.drivers.Driver(name)
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
			listed[task.ID] = heldTask{task, d}
		}
	}
	return listed, errors.Join(errs...)
}

// ownedTasks returns the IDs of the tasks with stored handles in allocations that the client
// runs or will restore. Tasks that are still being recovered are included.
func (c *Client) ownedTasks(waiting []*nomad.Allocation) (map[string]bool, error) {
	var ids []string
	for _, h := range c.allocs.all() {
		ids = append(ids, h.id)
	}
	for _, a := range waiting {
		ids = append(ids, a.ID)
	}
	owned := map[string]bool{}
	for _, id := range ids {
		tasks, err := c.db.Tasks(id)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			if t.Local == nil || t.Local.TaskHandle == nil {
				continue
			}
			if _, err := c.drivers.Driver(t.Local.TaskHandle.Driver); err == nil {
				owned[t.Local.TaskHandle.TaskID] = true
			}
		}
	}
	return owned, nil
}
