package analysis

import (
	"strings"
	"sync"
)

// irregularWords lists English words with irregular forms: each line is a word and
// the forms that give its terms. It omits forms that are as often another word
// (left, led, lives, saw, spring).
const irregularWords = `
beat beaten
become became
begin began begun
bend bent
bite bitten
bleed bled
blow blew blown
break broke broken
breed bred
bring brought
build built
burn burnt
buy bought
catch caught
choose chose chosen
cling clung
come came
creep crept
deal dealt
dig dug
draw drew drawn
dream dreamt
drink drank drunk
drive drove driven
eat ate eaten
fall fell fallen
feel felt
fight fought
find found
flee fled
fling flung
fly flew flown
forbid forbade forbidden
forget forgot forgotten
forgive forgave forgiven
freeze froze frozen
get got gotten
give gave given
go went gone
grow grew grown
hang hung
hear heard
hide hid hidden
hold held
keep kept
kneel knelt
know knew known
lay laid
leap leapt
learn learnt
lend lent
light lit
lose lost
make made
mean meant
meet met
mistake mistook mistaken
overcome overcame
overwrite overwrote overwritten
pay paid
prove proven
rebuild rebuilt
rerun reran
rewrite rewrote rewritten
ride rode ridden
ring rang rung
rise risen
run ran
say said
seek sought
sell sold
send sent
sew sewn
shake shook shaken
shoot shot
show shown
shrink shrank shrunk
sing sang sung
sink sank sunk
sit sat
sleep slept
slide slid
speak spoke spoken
spell spelt
spend spent
spill spilt
spin spun
stand stood
steal stole stolen
stick stuck
strike struck
swear swore sworn
sweep swept
swim swam swum
swing swung
take took taken
teach taught
tear torn
tell told
think thought
throw threw thrown
understand understood
undertake undertook undertaken
wake woke woken
wear wore worn
weave wove woven
weep wept
withdraw withdrew withdrawn
write wrote written

calf calves
child children
elf elves
foot feet
goose geese
half halves
hoof hooves
knife knives
loaf loaves
man men
mouse mice
ox oxen
scarf scarves
shelf shelves
thief thieves
tooth teeth
wife wives
wolf wolves
woman women

alumnus alumni
analysis analyses
appendix appendices
bacterium bacteria
crisis crises
criterion criteria
diagnosis diagnoses
focus foci
fungus fungi
hypothesis hypotheses
index indices
larva larvae
matrix matrices
nucleus nuclei
parenthesis parentheses
phenomenon phenomena
radius radii
stimulus stimuli
synopsis synopses
synthesis syntheses
thesis theses
vertebra vertebrae
vertex vertices
`

// irregular returns the word of each form, and the forms of each word by the stem
// of the word. The first call makes both maps.
var irregular = sync.OnceValues(func() (words map[string]string, forms map[string][]string) {
	words, forms = map[string]string{}, map[string][]string{}
	for line := range strings.Lines(irregularWords) {
		word := strings.Fields(line)
		if len(word) == 0 {
			continue
		}
		stem := string(englishStem([]byte(word[0])))
		for _, form := range word[1:] {
			words[form] = word[0]
			forms[stem] = append(forms[stem], form)
		}
	}
	return words, forms
})

// IrregularForms returns the irregular forms of the word with a stem.
func IrregularForms(stem []byte) []string {
	_, forms := irregular()
	return forms[string(stem)]
}

// regular returns the word of an irregular form, or "".
func regular(form []byte) string {
	words, _ := irregular()
	return words[string(form)]
}
