package config

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/drivers/docker/account"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// CheckUser checks the user of a job. The value of a reference is checked on the node.
func CheckUser(text string) error {
	if text == "" || strings.Contains(text, drivers.Reference) {
		return nil
	}
	_, err := account.Parse(text)
	return err
}

// mayBeRoot reports whether the user of a job, or its group, is root before a lookup in the image: the user of
// the image, and what cannot be read, count as root. A name does not. StartTask looks it up and refuses a task
// whose level does not allow what it finds.
func mayBeRoot(text string) bool {
	a, err := account.Parse(text)
	return text == "" || err != nil || a.IsRoot()
}

// Groups parses group_add.
func Groups(texts []string) (out []account.Principal, err error) {
	for _, text := range texts {
		p, err := account.ParsePrincipal(text)
		if err != nil {
			return nil, fmt.Errorf("group_add: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// checkGroups checks group_add.
func (o *Task) checkGroups() error {
	_, err := Groups(o.GroupAdd)
	return err
}
