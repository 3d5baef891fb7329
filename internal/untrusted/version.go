package untrusted

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-version"
)

// Limits of versions and their ranges, in bytes, and of the parts of a range.
const (
	maxVersion = 512
	maxRange   = 4 << 10
	maxParts   = 128
)

// Version parses a version.
func Version(text string) (*version.Version, error) {
	if err := fitVersion(text); err != nil {
		return nil, err
	}
	return version.NewVersion(text)
}

// Semver parses a semantic version.
func Semver(text string) (*version.Version, error) {
	if err := fitVersion(text); err != nil {
		return nil, err
	}
	return version.NewSemver(text)
}

func fitVersion(text string) error {
	if len(text) > maxVersion {
		return fmt.Errorf("the version has %d bytes: the limit is %d", len(text), maxVersion)
	}
	return nil
}

// VersionRange parses a range of versions, such as ">= 1.2, < 2".
func VersionRange(text string) (version.Constraints, error) {
	if err := FitRange(text); err != nil {
		return nil, err
	}
	return version.NewConstraint(text)
}

// FitRange refuses a range of versions that is too long.
func FitRange(text string) error {
	if len(text) > maxRange {
		return fmt.Errorf("the version range has %d bytes: the limit is %d", len(text), maxRange)
	}
	if n := strings.Count(text, ",") + 1; n > maxParts {
		return fmt.Errorf("the version range has %d parts: the limit is %d", n, maxParts)
	}
	return nil
}
