package images

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// origins remembers which images the agent has brought to the node, and for whom. It does not know those of an operator,
// which every task can use.
//
//	unknown ──pull with credentials──▶ private ──pull without──▶ unknown
//	   └──────load──▶ loaded ──pull──▶ private or unknown
//
// <dir>/<hash of the repository>.json, 0600 of the agent, has what is known about the images of one repository. It is
// written before the daemon can have an image, and has no credentials. Which credentials a registry has accepted is known
// in memory only: the next agent asks again. All instances of an agent share the directory.
type origins struct {
	dir string // "" keeps everything in memory
	key []byte // of the hashes of credentials

	mu       *sync.Mutex // of the directory
	memory   map[string]*repository
	accepted map[string]bool // by proof
}

// repository is what is known about the images of a repository.
type repository struct {
	Name string
	// Pulling is the number of pulls with credentials that have begun. While it is not 0, also after an agent that was
	// killed, every image that is not in Known is private.
	Pulling int
	Known   []string               // IDs from before the first of these pulls
	Private map[string]bool        // IDs of images for those whose credentials the registry accepts
	Loaded  map[string]loadedImage // by reference
}

// loadedImage is an image that a job has loaded. Other jobs do not use it.
type loadedImage struct {
	ID             string // "" while it is loaded
	Namespace, Job string
}

// use is who can use an image that the daemon has.
type use int

const (
	useAll     use = iota // an image of the operator, or of a public registry
	usePrivate            // those whose credentials the registry accepts
	useOwn                // the task's job, which has loaded it
	useOther              // another job, which has loaded it
)

// directories has a mutex for each directory of origins.
var directories sync.Map

func newOrigins(dir string) *origins {
	o := &origins{dir: dir, key: make([]byte, sha256.Size), mu: &sync.Mutex{}, memory: map[string]*repository{}, accepted: map[string]bool{}}
	rand.Read(o.key) //nolint:errcheck // never fails
	if dir != "" {
		mu, _ := directories.LoadOrStore(dir, o.mu)
		o.mu = mu.(*sync.Mutex)
	}
	return o
}

// maxRecord limits the size of a file.
const maxRecord = 4 << 20

func recordName(repo string) string {
	sum := sha256.Sum256([]byte(repo))
	return hex.EncodeToString(sum[:]) + ".json"
}

// read returns what is known about a repository. The caller holds the mutex.
func (o *origins) read(repo string) (*repository, error) {
	empty := &repository{Name: repo, Private: map[string]bool{}, Loaded: map[string]loadedImage{}}
	if o.dir == "" {
		if r := o.memory[repo]; r != nil {
			return r, nil
		}
		return empty, nil
	}
	dir, err := safefs.Open(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the records of images: %w", err)
	}
	defer dir.Close() //nolint:errcheck // a directory
	text, err := dir.ReadFile(recordName(repo), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err == nil {
		err = json.Unmarshal(text, empty)
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of the images of %s: %w", repo, err)
	}
	if empty.Private == nil || empty.Loaded == nil {
		return nil, fmt.Errorf("read the record of the images of %s: it is incomplete", repo)
	}
	return empty, nil
}

// change changes what is known about a repository.
func (o *origins) change(repo string, f func(*repository)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, err := o.read(repo)
	if err != nil {
		return err
	}
	f(r)
	if o.dir == "" {
		o.memory[repo] = r
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of the records of images: %w", err)
	}
	dir, err := safefs.Open(o.dir)
	if err != nil {
		return fmt.Errorf("open the records of images: %w", err)
	}
	defer dir.Close() //nolint:errcheck // a directory
	if err := dir.Replace(recordName(repo), text, safefs.File{Mode: 0o600, UID: -1, GID: -1}); err != nil {
		return fmt.Errorf("write the record of the images of %s: %w", repo, err)
	}
	return nil
}

// use returns who can use the image of a reference, for a task.
func (o *origins) use(ref, id string, cfg *drivers.TaskConfig) (use, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, err := o.read(repositoryOf(ref))
	if err != nil {
		return usePrivate, err
	}
	l, loaded := r.Loaded[ref]
	switch {
	case loaded && (l.ID == "" || l.ID == id):
		if cfg.JobID != "" && l.Namespace == cfg.Namespace && l.Job == cfg.JobID {
			return useOwn, nil
		}
		return useOther, nil
	case r.Private[id], r.Pulling > 0 && !slices.Contains(r.Known, id):
		return usePrivate, nil
	}
	return useAll, nil
}

// begin records that a pull with credentials begins. The reference has the image old now, "" for none.
func (o *origins) begin(ref, old string) error {
	return o.change(repositoryOf(ref), func(r *repository) {
		r.Pulling++
		if old != "" && !r.Private[old] && r.Pulling == 1 {
			r.Known = append(r.Known, old)
		}
	})
}

// end records the result of a pull: the image, "" if it failed. It is public if the pull had no credentials.
func (o *origins) end(ref, old, id string, private bool) error {
	return o.change(repositoryOf(ref), func(r *repository) {
		switch {
		case id == "":
		case !private:
			delete(r.Private, id)
		case id != old || r.Loaded[ref].ID == id: // an image that the node had before stays as it was
			r.Private[id] = true
		}
		if id != "" {
			delete(r.Loaded, ref)
		}
		if !private {
			return
		}
		if r.Pulling--; r.Pulling <= 0 {
			r.Pulling, r.Known = 0, nil
		}
	})
}

// loaded records that a task loads an image, or has loaded it. The ID is "" before the daemon has reported it.
func (o *origins) loaded(ref, id string, cfg *drivers.TaskConfig) error {
	return o.change(repositoryOf(ref), func(r *repository) { r.Loaded[ref] = loadedImage{id, cfg.Namespace, cfg.JobID} })
}

// notLoaded records that the load of an image has failed.
func (o *origins) notLoaded(ref string) error {
	return o.change(repositoryOf(ref), func(r *repository) { delete(r.Loaded, ref) })
}

// proof identifies an image with the credentials for it. It does not reveal them.
func (o *origins) proof(repo, id, auth string) string {
	h := hmac.New(sha256.New, o.key)
	for _, s := range []string{repo, id, auth} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return string(h.Sum(nil))
}

// accept records that the registry has accepted credentials for an image.
func (o *origins) accept(repo, id, auth string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accepted[o.proof(repo, id, auth)] = true
}

func (o *origins) isAccepted(repo, id, auth string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.accepted[o.proof(repo, id, auth)]
}
