package drivers

import "context"

// Lister is a Driver that can list its tasks, whether or not they were recovered. Drivers that
// share a supervisor list each other's tasks, and can destroy them. After a restore the client ends
// the tasks without a handle.
type Lister interface {
	ListTasks(ctx context.Context) ([]TaskStatus, error)
}
