package getter

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	gogetter "github.com/hashicorp/go-getter"
	"golang.org/x/sys/unix"
)

// describe returns the text of an error for the task's event. URLs of errors are left out: they can contain
// credentials of the job, or of a redirect.
func describe(err error) string {
	var sum *gogetter.ChecksumError
	var web *url.Error
	switch {
	case errors.As(err, &sum):
		return fmt.Sprintf("checksum does not match: expected %x, got %x", sum.Expected, sum.Actual)
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	case errors.Is(err, unix.EFBIG):
		return "a file is larger than the limit of the download"
	case errors.As(err, &web):
		return describe(web.Err)
	}
	return err.Error()
}
