package supervise

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// RecordedTasks is Tasks, but starts no supervisor if no task is recorded. A record exists before its task
// is started.
func (c *Client) RecordedTasks(ctx context.Context) ([]proc.Task, error) {
	records, err := os.ReadDir(filepath.Join(c.dir, "tasks"))
	if os.IsNotExist(err) || err == nil && len(records) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read task records: %w", err)
	}
	return c.Tasks(ctx)
}
