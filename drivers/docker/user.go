package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker/account"
	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// setUser sets the user and the groups of a container, as numbers. A task whose options give it a level for ordinary
// users is refused if the image makes it root, or a member of root's group.
func (d *Driver) setUser(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task, spec *client.ContainerCreateOptions) error {
	add, err := config.Groups(o.GroupAdd)
	if err != nil {
		return err
	}
	who := account.Account{Group: &account.Principal{}} // not looked up
	if cfg.User != "" {
		if who, err = account.Parse(cfg.User); err != nil {
			return err
		}
	}
	var files account.Files
	if account.NeedsFiles(who, add) {
		if files, err = d.accountsOf(ctx, spec); err != nil {
			return err
		}
	}
	ids, err := files.Resolve(who, add)
	if err != nil {
		return fmt.Errorf("task %q: %w", cfg.Name, err)
	}
	spec.HostConfig.GroupAdd = ids.GroupAdd()
	if cfg.User == "" {
		return nil // that of the image
	}
	ordinary := cfg.Isolation.Level() >= drivers.LevelRestricted
	if ids.Unknown && ordinary {
		ids.GID = ids.UID
	}
	if root := ids.HasRoot(); root != "" && ordinary {
		return fmt.Errorf("task %q: user %q has %s in the image, but its options count as those of an ordinary user: "+
			"set user = \"<uid>:<gid>\" with other numbers, or user = \"0\"", cfg.Name, cfg.User, root)
	}
	spec.Config.User = ids.User()
	return nil
}

// accounts keeps the users of images, which never change.
type accounts struct {
	mu     sync.Mutex
	images map[string]account.Files
}

// maxAccounts limits the images of accounts.
const maxAccounts = 64

// accountsOf returns the users of the image of a container. It reads them from a container that is never started, and
// which has the name of the new one: one that a killed agent leaves is removed with that.
func (d *Driver) accountsOf(ctx context.Context, spec *client.ContainerCreateOptions) (files account.Files, err error) {
	d.accounts.mu.Lock()
	files, ok := d.accounts.images[spec.Config.Image]
	d.accounts.mu.Unlock()
	if ok {
		return files, nil
	}
	probe := &client.ContainerCreateOptions{Name: spec.Name,
		Config:     &container.Config{Image: spec.Config.Image, Labels: spec.Config.Labels, Entrypoint: []string{"-"}},
		HostConfig: &container.HostConfig{NetworkMode: "none"}}
	id, err := d.create(ctx, probe, d.set.Attempts)
	if err != nil {
		return files, err
	}
	defer func() { err = errors.Join(err, d.remove(context.WithoutCancel(ctx), id)) }()
	for name, to := range map[string]*string{"/etc/passwd": &files.Passwd, "/etc/group": &files.Group} {
		if *to, err = d.imageFile(ctx, id, name); err != nil {
			return files, fmt.Errorf("read %s of the image: %w", name, err)
		}
	}
	d.accounts.mu.Lock()
	defer d.accounts.mu.Unlock()
	if len(d.accounts.images) >= maxAccounts || d.accounts.images == nil {
		d.accounts.images = map[string]account.Files{}
	}
	d.accounts.images[spec.Config.Image] = files
	return files, nil
}

// maxLinks limits the symbolic links that lead to a file of an image.
const maxLinks = 8

// imageFile returns a file of a container, "" if it does not exist. The daemon resolves directories within the container.
func (d *Driver) imageFile(ctx context.Context, id, name string) (string, error) {
	for range maxLinks {
		text, link, err := d.copyOut(ctx, id, name)
		if err != nil || link == "" {
			return text, err
		}
		if !path.IsAbs(link) {
			link = path.Join(path.Dir(name), link)
		}
		name = path.Clean(link)
	}
	return "", fmt.Errorf("more than %d symbolic links", maxLinks)
}

// copyOut returns a file of a container, or the destination of a symbolic link.
func (d *Driver) copyOut(ctx context.Context, id, name string) (text, link string, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	got, err := d.api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: name})
	if cerrdefs.IsNotFound(err) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	defer got.Content.Close() //nolint:errcheck // a stream that was read
	archive := tar.NewReader(got.Content)
	h, err := archive.Next()
	switch {
	case err != nil:
		return "", "", err
	case h.Typeflag == tar.TypeSymlink:
		return "", h.Linkname, nil
	case h.Typeflag != tar.TypeReg || h.Size > account.MaxFile:
		return "", "", fmt.Errorf("it is not a file of at most %d bytes", account.MaxFile)
	}
	all, err := io.ReadAll(io.LimitReader(archive, account.MaxFile))
	return string(all), "", err
}
