package drivers

import "context"

// Lister is a Driver that can list the tasks it holds, whether or not they were recovered.
// Drivers that share a supervisor list each other's tasks, and can destroy them. After a
// restore the client ends the tasks that none of its handles names.
type Lister interface {
	ListTasks(ctx context.Context) ([]TaskStatus, error)
}
