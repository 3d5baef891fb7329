package term

import (
	"errors"
	"fmt"
	"os"
)

// WriteNew creates and writes a file. It is an error if the file exists.
func WriteNew(name, text string, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("File %q already exists: nothing written", name)
	}
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("Failed to write %q: %w", name, err)
	}
	return nil
}
