package skill

import (
	"embed"
	"path"
	"sync"
)

//go:embed bundled/*/SKILL.md
var bundledFiles embed.FS

// BundledDir has the skills that come with the program. A prompt does not list them: agents find
// them with the tool skill.
var BundledDir = Dir{Tier: Bundled}

// bundled returns the skills that come with the program, with their bodies.
var bundled = sync.OnceValue(func() (list []found) {
	entries, err := bundledFiles.ReadDir("bundled")
	if err != nil {
		panic(err) // a bug: the directory is in the program
	}
	for _, e := range entries {
		name := path.Join("bundled", e.Name(), filename)
		b, err := bundledFiles.ReadFile(name)
		if err != nil {
			panic(err) // as above
		}
		sk, err := Parse(name, b)
		if err != nil {
			panic(err) // a bug: the file is in the program
		}
		sk.Tier, sk.File = Bundled, ""
		list = append(list, found{Skill: sk, root: BundledDir})
	}
	return list
})

// bundled adds the skills of the program whose names no other skill has.
func (c *scan) bundled() {
	for _, f := range bundled() {
		if _, ok := c.byName[f.Name]; !ok && len(c.skills) < maxSkills {
			c.byName[f.Name] = len(c.skills)
			c.skills = append(c.skills, f)
		}
	}
}
