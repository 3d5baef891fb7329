package command

import (
	"os"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/command/man"
)

// WriteManPages writes the manual pages of all commands to a directory.
func WriteManPages(dir string, date time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range man.Pages(commands(), date) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
