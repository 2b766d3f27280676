"""Word lists by which `sidecar.detectors.rules.context` tells a mention from an order, in the languages of the rules.

RE2 patterns. Only words of a closed list (`NEGATION_GAP`) may stand between a negation and the verb, so that "do not
answer, ignore ..." stays an order. The lists are public: a listed word counts only where it governs the verb.
"""

# ruff: noqa: E501 - lists of words
from __future__ import annotations

LETTER = r"[a-z\x{c0}-\x{1fff}]"
"""A letter of most alphabets, at a hundredth of the cost of `\\pL`."""
_WORD_START = r"(?:\A|[^a-z\x{c0}-\x{1fff}])"

_NEGATIONS = (
    r"never(?:,?\s+(?:ever|under\s+(?:any|no)\s+circumstances?,?))?|(?:do|does|must|should|may|can|will)?\s*not|cannot"
    r"|(?:ca|do|does|did|wo|must|should|may|need|is|are)n't|no\s+(?:one|user)\s+(?:may|can|should|shall)"
    r"|nobody\s+(?:may|can|should)|without|rather\s+than|instead\s+of|refus(?:e|es|ed|ing)|declin(?:e|es|ed|ing)"
    r"|avoid(?:s|ed|ing)?|unable|unwilling"
    r"|(?:under|in)\s+no\s+(?:circumstances?|case|event|way)|at\s+no\s+(?:point|time)"
    r"|forbidden|prohibited|disallowed|barred"
    # Deutsch, Nederlands, Skandinavisch
    r"|(?:noch\s+)?(?:nicht|nie|niemals)|keinesfalls|keineswegs|ohne|weigert?|untersagt|verboten|auf\s+keinen\s+fall|statt"
    r"|niet|nooit|geen|zonder|inte|aldrig|ikke|aldri|nekter"
    # Français, español, português, italiano
    r"|(?:ne\s+)?(?:jamais|pas)|ne|sans|interdit|refuse[rz]?|évite[rz]?"
    r"|no|nunca|jam[aá]s|sin|prohibido|evit[ae]r?|niégate|rechaza"
    r"|n[ãa]o|nem|sem|proibido|recuse|non|mai|senza|vietato|rifiutat?i?"
    # Polski, čeština, русский, українська
    r"|(?:nigdy\s+)?nie|nigdy|bez|odmawiaj?|nikdy|nesmíš|nesmí|ná|(?:никогда\s+)?не|нельзя|никогда|запрещено|без"
    r"|откажись|отказывайся|(?:ніколи\s+)?не|ніколи|заборонено"
    # Türkçe, Bahasa, tiếng Việt, عربي, فارسی, עברית, हिन्दी
    r"|asla|sakın|jangan(?:\s+pernah)?|tidak|dilarang|tanpa|menolak|(?:tuyệt\s+đối\s+)?(?:không|đừng|chớ)|cấm|từ\s+chối"
    r"|لا|ولا|فلا|لن|لم|ألا|ألّا|يمنع|ممنوع|دون|بدون|هرگز|نباید|אל|ואל|לא|ולא|אסור|בלי|मत|कभी|न|बिना|mat|kabhi|bina"
)
_POLARITY_SHIFTERS = (
    r"fail(?:s|ed)?|hesitat(?:e|es|ing)|forget|neglect|omit|resist|afraid|reluctant|stop|quit|cease|shy\s+away|zögere|zögern|vergiss"
    r"|vergisst|aarzel|vergeet|hésite[rz]?|oublie[rz]?|dudes|olvides|hesite|esque[çc]a|esitare|dimenticare|wahaj|zapomnij|забудь|стесняйся"
    r"|бойся|вагайся|lupa|ragu|takut|quên|ngại"
)
"""Verbs that turn a negation into an order, and mitigate nothing alone: "do not forget to ...", "forget all ..."."""
_NEGATION_GAPS = (
    r",?\s*under\s+(?:any|no)\s+circumstances?,?|,?\s*in\s+any\s+(?:way|case),?|,?\s*for\s+any\s+reason,?"
    r"|,?\s*no\s+matter\s+(?:what|who\s+asks),?|ever|again|directly|fully|openly|simply|knowingly|accidentally|also|even"
    r"|to|from|into|by|(?:try|tries|attempt|agree|offer|be\s+willing|willing|inclined)\s+to"
    r"|be\s+(?:tricked|persuaded|convinced|talked|forced|made|led|coaxed|pressured)\s+(?:into|to)"
    r"|allowed|supposed|permitted|able|authori[sz]ed|expected|asked"
    r"|ma(?:ke|king)|let(?:ting)?|get(?:ting)?|trick(?:ing)?|persuad(?:e|ing)|convinc(?:e|ing)|allow(?:ing)?|permit(?:ting)?"
    r"|forc(?:e|ing)|talk(?:ing)?|tell(?:ing)?|ask(?:ing)?|caus(?:e|ing)|help(?:ing)?"
    r"|you|anyone|anybody|someone|them|him|it|people|others|yourself|(?:the\s+|an?\s+|any\s+)?(?:users?|models?|assistants?|bots?|agents?|ai|llms?)"
    rf"|{LETTER}+(?:,\s*{LETTER}+){{0,4}},?\s+(?:or|nor|oder|noch|ou|o|ni|nem|of|lub|ani|или|ни|veya|hoặc|atau|أو)|{LETTER}+\s*/"
    r"|dich|dir|sich|zu|jemals|einfach|je|plus|surtout|de|d'|à|a|te|di|om|że|aby|bao\s+giờ|được|boleh|أبدا|أبدًا|أن|أي"
)
_BEFORE_LATIN = r"|bu\s?yao|bie"
_AFTER_LATIN = r"|\A\s?wa\s+(?:ike|nar)(?:masen|nai|imasen|anai)\b|\A\s?ma(?:seyo|sipsio|ra|lgo)\b"
"""Chinese, Japanese and Korean in Latin letters: words of theirs say nothing in another language."""
NEGATION = (
    rf"{_WORD_START}(?:{_NEGATIONS})[\s'\"*_`“«]*\z"
    # Without spaces between words
    r"|(?:不要|不得|不可|不能|不应|不應|不会|不會|切勿|请勿|請勿|勿|禁止|严禁|嚴禁|绝不|絕不|决不|别|別|莫|拒绝|拒絕|防止|避免"
    r"|อย่า|ห้าม|ไม่ควร|ไม่|ปฏิเสธ)[^\s，。！？；：、,.!?;:]{0,6}\z"
)
TRANSLITERATED_NEGATION = rf"{_WORD_START}(?:{_NEGATIONS}{_BEFORE_LATIN})[\s'\"*_`“«]*\z"
POLARITY_SHIFTER = rf"{_WORD_START}(?:{_POLARITY_SHIFTERS})[\s'\"*_`“«]*\z|(?:忘记|忘了|忘|犹豫|害怕|怕)[^\s，。！？；：、,.!?;:]{{0,3}}\z"
NEGATION_GAP = rf"{_WORD_START}(?:{_NEGATION_GAPS})[\s'\"*_`“«]*\z"
NEGATED_INSIDE = (
    r"\A\S+\s+(?:\S+\s+){0,6}?(?:niemals|keinesfalls|auf\s+keinen\s+fall|unter\s+keinen\s+umständen|jamais|nooit|onder\s+geen|aldrig"
    r"|nunca|jam[aá]s|nigdy|никогда|ніколи|asla|under\s+no\s+circumstances?)\s"
    r"|\A(?:\S+\s+){1,14}?(?:pero|mas|ma)\s+(?:no|não|non)\s+(?:eres|soy|és|é|sei|sou)\s"
)
REFUSED_INSIDE = (
    r"refus|verweiger|ablehn|ablehnst|rechaz|niega|niegu|recus|rifiut|отказ|відмов|odm[aó]w|reddet|weiger|nein\b|non\b"
)
NEGATED_AFTER = (
    r"\A[\s」』”\"']{0,2}[ぁ-ん]{0,5}(?:ないで|ないこと|ない(?:よう|ため)|てはいけ|てはなら|べきではな|禁止|ません|せず)"
    r"|\A[\s”\"']{0,2}(?:하|해|를|을|하게)?\s?(?:지\s?(?:마|말|않|못)|면\s?안|서는\s?안|금지)"
    r"|\A\s?(?:mat\b|nahi\b|मत|नहीं|न\s)|\A\s*(?:نگیر|نکن|نشو|مکن|نہ\s|مت\s)"
)
TRANSLITERATED_NEGATED_AFTER = NEGATED_AFTER + _AFTER_LATIN
NEGATED_LIST = (
    r"\b(?:never|not|don't|doesn't|mustn't|cannot|avoid|forbidden|prohibited|refuse|refuses|decline|disallowed|won't)\b"
    r"|\b(?:nicht|nie|niemals|verboten|jamais|interdit|nunca|prohibido|proibido|mai|vietato|nooit|verboden|nigdy)\b"
    r"|não|никогда|нельзя|不要|禁止|不得|切勿|しない|하지|금지|asla|không|jangan|لا\s|मत"
)
NEGATION_END = (
    r"[;,]|\b(?:until|unless|but|before|instead|and|bis|aber|sondern|jusqu|mais|sino|hasta|mas|até|ma|fino|tot|maar)\b"
)
"""Ends the scope of a negation in the line before a list."""
SUGGESTION = r"(?:\bwhy\s+(?:do\s+)?not|n't\s+you|\bwhy\s+don't\s+(?:we|you)|\bnot\s+only)\s*\z"
"""A negation that suggests the action."""
_ATTACKERS = rf"(?:attackers?|adversar(?:y|ies)|hackers?|criminals?|scammers?|spammers?|malicious\s+{LETTER}+|bad\s+actors?|red\s+team{LETTER}*|jailbreakers?)"
_ATTACKS = (
    r"(?:attacks?|injections?|jailbreaks?|exploits?|payloads?|attempts?|techniques?|vulnerabilit(?:y|ies)|threats?|risks?|backdoors?"
    rf"|(?:untrusted|injected|hidden|embedded|poisoned|adversarial)\s+{LETTER}+|(?:user|tool|malicious)\s+(?:prompts?|inputs?|outputs?))"
)
_DEFENCES = (
    r"(?:prevent|protect|defend|detect|block|filter|refuse|reject|resist|flag|guard|mitigate|harden|safeguard|classify|recogni[sz]e"
    r"|(?:stop|keep)(?:s|ping|ing)?\s+(?:(?:the|an?|your|our|any)\s+)?[a-z]+\s+from)(?:s|ed|ing|d)?"
)
_LINK_WORDS = (
    r"(?:to|that|which|who|where|when|such\s+as|like|by|may|might|can|could|will|would|tries|try|tells?|telling|asks?|asking|instructs?|instructing"
    r"|makes?|gets?|causes?|causing|convinces?|tricks?|with|from|against|into|of|and|or)"
)
_WITHIN_CLAUSE = r"[^.!?\n:;\"“„«`]"
_REQUEST_VERBS = rf"(?:ask|tell|say|tr[yi]|attempt|want|request|instruct|urge|order|demand|contain|claim|insist|persuad|convinc|push|press){LETTER}*"
_PERSON_OR_TEXT = (
    r"(?:users?|customers?|visitors?|callers?|people|someone|somebody|anyone|anybody|they|he|she|messages?|prompts?|inputs?|documents?"
    r"|texts?|(?:web\s+)?pages?|e-?mails?|content|websites?|outputs?|results?|comments?|instructions?|requests?)"
)
DESCRIBED = (
    rf"\b(?:{_ATTACKERS}|{_ATTACKS})\b{_WITHIN_CLAUSE}*?\b{_LINK_WORDS}(?:\s+[a-z'-]+){{0,5}}\s*\z",
    rf"\b{_DEFENCES}\b{_WITHIN_CLAUSE}*?\b(?:from|that|which|to|against|when|if|of)(?:\s+[a-z'-]+){{0,4}}\s*\z",
    (
        rf"\b(?:if|when|whenever|should|unless|in\s+case|because|after|once)\s+(?:(?:an?|the|any|some|your|that)\s+)?(?:[a-z]+\s+){{0,2}}?{_PERSON_OR_TEXT}"
        rf"\s+(?:[a-z]+\s+){{0,2}}?{_REQUEST_VERBS}(?:\s+(?:you|us|me|it|him|her|them|for|(?:the|an?|your)\s+(?:model|assistant|bot|ai|agent|llm)))?"
        r"(?:\s+(?:to|that|how|about|into|make|get|have|you))*\s*\z"
    ),
    (
        r"\b(?:if|when|whenever|even\s+if)\s+(?:you(?:'re|\s+are)|it\s+is|(?:the|an?)\s+(?:model|assistant|bot|agent|ai)\s+is)\s+(?:ever\s+)?"
        r"(?:asked|told|instructed|requested|pressed|ordered|urged|tricked|persuaded)\s+(?:to|into)\s*\z"
    ),
    r"\b(?:told|asked|advised|taught|ordered|helped|wants?|wanted|tells|asks)\s+(?:me|us|him|her|them|people|students?|children|everyone|everybody)\s+(?:to|how\s+to|not\s+to)\s*\z",
    (
        r"\b(?:what\s+happens\s+(?:if|when)|how\s+(?:do|does|can|could|would|should)|why\s+(?:do|does|did|would|can)|can|could|does|do|did|will|would)"
        r"\s+(?:an?|the|any|some|one|it|your|my|our|i|we|people|most)\s+(?:[a-z]+\s+){0,5}?(?:model|llm|chatbot|assistant|bot|agent|ai|gpt)s?\s+(?:(?:to|into|just|really|sometimes|still)\s+){0,2}\z"
    ),
    rf"\b{_PERSON_OR_TEXT}\s+(?:may|might|could|will|can|would|sometimes|often|often\s+try\s+to)\s+(?:[a-z]+\s+){{0,2}}?{_REQUEST_VERBS}(?:\s+(?:you|it|them|(?:the|an?|your)\s+(?:model|assistant|bot|ai|agent|llm)))?(?:\s+(?:to|that|into|make|get|have|you|it))*\s*\z",
    # What somebody else does, did, or was told to
    (
        r"\b(?:suppliers?|contractors?|clients?|customers?|tenants?|landlords?|part(?:y|ies)|employees?|staff|members?|committee|court|jury"
        r"|visitors?|guests?|players?|pupils?|students?|drivers?|participants?|children|kids|toddlers?|he|she|they|who)"
        r"\s+(?:(?:shall|may|will|can|could|would|should|must|did|does|do|often|always|sometimes|then|just|not)\s+){0,3}\z"
    ),
    r"\b(?:was|were|am|been|being|got|are)\s+(?:told|asked|ordered|instructed|advised|supposed)\s+to\s+\z",
    r"\b(?:types?|typed|writes?|wrote|posts?|posted|reads|says|said|yells|shouts?|shouted)\s*,\s*\z",
    # What is done, in Romance languages ("se elimina ..."), and what is asked for if somebody asks
    r"(?:\A|[.!?;:,\n•*-]|\b(?:no|ya|que|donde|as[ií]|tambi[eé]n|y|si|cuando|não|já|onde|também|quando|non|che|dove|anche))\s*se\s+(?:(?:me|te|le|les|lhe|lhes|nos)\s+)?\z",
    r"\b(?:если|якщо|коли|когда)\s+[^.!?\n:]*(?:просьб|прохан|требован|вимог|попытк|спроб)[^.!?\n:,]*\z",
    rf"\b(?:pedidos|solicitudes|tentativas?|intentos?)\s+(?:para|de)\s+(?:que\s+)?{_WITHIN_CLAUSE}*\z",
    # Attackers and attacks by name in other languages
    (
        r"(?:angreifer|angriff|attaquant|attaque|atacante|ataque|attaccant|attacco|attacchi|aanvaller|aanval|angripare|napastni"
        r"|útočn|злоумышленник|атак|зловмисник|saldırgan|saldırı|kẻ\s+tấn\s+công|tấn\s+công|penyerang|serangan|المهاجم|هجوم|مهاجم|מתקיף"
        rf"|हमलावर|हमले|攻击者|攻击|攻擊|注入|越狱|攻撃者|攻撃|インジェクション|공격자|공격|인젝션|ผู้โจมตี|การโจมตี){_WITHIN_CLAUSE}*\z"
    ),
    # If a user asks you to, in other languages
    r"\b(?:wenn|falls|sobald)\s+[^.!?\n:,]*(?:bittet|fragt|auffordert|verlangt|versucht|will|möchte)[^.!?\n:]*\z",
    rf"\b(?:si|se|als|jeśli|если|якщо|nếu|jika|kalau)\s+[^.!?\n:,]*(?:demande{LETTER}*|pide{LETTER}*|pid[ae]n?|pede{LETTER}*|peça{LETTER}*|chiede{LETTER}*|chied(?:a|ono)|invit{LETTER}+|ordin{LETTER}+|dice|vraagt|prosi|poprosi|просит|попросит|yêu\s+cầu|meminta)\s*(?:de|d'|que|à|a|di|om|aby)?\s*\z",
)
SUPERSEDES = r"(?:\A|\s)(?:et|e|y|und|en|og|och|i|и)\s+(?:remplace|sostituisce|su(?:b)?stituye|substitui|ersetzt|vervangt|erstatter|ersätter|zastępuje|заменяет)(?:[^a-z\x{c0}-\x{1fff}]|\z)"
"""What a document does to earlier ones: "annule et remplace", with `SUPERSEDING` before it."""
SUPERSEDING = rf"\b(?:pr[eé]sent|versi[oó]n|note|nota|document|istruzion|instruc|circula|circola|consigne|fassung|weisung|ausgabe|edi[cz]i|r[eé]visi|instrukcj|wytyczn|инструкци|редакци|приказ){LETTER}*{_WITHIN_CLAUSE}*\z"
FRAMES = (
    rf"\b(?:attack|inject|jailbreak|malicious|adversar|exploit|phish|scam|payload){LETTER}*"
    r"|\b(?:such\s+as|e\.g\.|i\.e\.|for\s+(?:example|instance)|(?:phrases?|prompts?|things?|wordings?|sentences?|texts?|lines?|messages?|requests?|words|inputs?|tricks?|commands?|orders?|questions?|something|anything)\s+(?:like|such|saying|that\s+says?|containing|as))\b"
    rf"|\b(?:patterns?|regex{LETTER}*|keywords?|detect{LETTER}*|block(?:s|ed|ing|list)|deny\s?list|filter{LETTER}*|flag(?:s|ged)|refus{LETTER}+|reject{LETTER}*|classif{LETTER}*|assert{LETTER}*|test_?cases?|fixtures?|trigger\s+words?|red\s+team{LETTER}*|banned|forbidden|suspicious|poisoned|harmless)\b"
    r"|(?:\A|[\s(\"'#*_>-])examples?\b"
    r"|\bchat\s?ml\b|\b(?:chat|prompt)[\s_-]?(?:templates?|formats?)\b|\bspecial[\s_-]tokens?\b|\btokeni[sz](?:ers?|ation)\b|\badd_generation_prompt\b|\bfine-?tun(?:e|ed|ing)\b|\binstruct(?:ion)?[\s-](?:formats?|datasets?|tuning|tuned)\b"
    r"|\b(?:users?|people|someone|somebody|anyone|customers?|visitors?)\s+(?:(?:may|might|could|can|will|would|who|often|sometimes|try\s+to)\s+){0,2}(?:say|says|ask|asks|write|writes|type|types|wrote|typed|said|asked)\s*[:,]?\s*\z"
    r"|\b(?:known|referred)\s+(?:as|to)|\b(?:so-called|what\s+does|what\s+happens\s+(?:if|when)|why\s+(?:do|does|did|would)|how\s+(?:do|does|would|should|can)\s+(?:i|we|one|you)\s+(?:defend|protect|stop|prevent|detect|test)|explain\s+(?:why|how|what)|heard\s+of)\b"
    rf"|\b(?:angriff{LETTER}*|beispiel{LETTER}*|z\.\s?b\.|etwa|sätze\s+wie|phrasen|schadtext{LETTER}*|eingeschleust{LETTER}*|bedeutet|erkenn{LETTER}*|blockier{LETTER}*)"
    rf"|\b(?:attaque{LETTER}*|exemples?|par\s+exemple|phrases?\s+comme|des\s+phrases|malveillant{LETTER}*|signifie|détect{LETTER}*|bloqu{LETTER}*)"
    rf"|\b(?:ataques?|ejemplos?|por\s+ejemplo|frases?\s+(?:como|del)|malicios{LETTER}*|significa|exemplos?|por\s+exemplo|tipo)"
    rf"|\b(?:attacc{LETTER}+|esemp{LETTER}+|ad\s+esempio|frasi\s+come|rileva{LETTER}*|aanval{LETTER}*|voorbeeld{LETTER}*|bijvoorbeeld|zinnen\s+als|betekent)"
    rf"|\b(?:przykład{LETTER}*|atak{LETTER}*|np\.|příklad{LETTER}*|útok{LETTER}*|exempel|angrepp|eksempel|angreb)"
    r"|например|атак|пример|инъекци|фраз|означает|наприклад|приклад|örne[kğ]|saldırı|mesela|ne\s+demek"
    r"|ví\s+dụ|tấn\s+công|chẳng\s+hạn|câu\s+như|nghĩa\s+là|contoh|serangan|misalnya|مثال|أمثلة|مثل|هجوم|هجمات|حقن|عبارة|عبارات|حمله|דוגמ|התקפ|משפט"
    rf"|\b(?:manipul{LETTER}+|atac{LETTER}*|támad{LETTER}*|napad{LETTER}*|hyökk{LETTER}*|exempl{LETTER}*|például|példa|prim(?:j?er|jer){LETTER}*|esimerk{LETTER}*|shembull{LETTER}*|fjali|sulm{LETTER}*)"
    # Who typed it, what a test expects of it, and questions about the wording
    rf"|\b(?:users?|customers?|visitors?|pupils?|players?|someone|somebody)\s+(?:{LETTER}+\s+){{0,2}}?(?:pasted|typed|entered|sent|submitted|wrote)\b"
    rf"|\b(?:(?:be)?nutzer|anwender|kunde|utilisateur|client|usuari[oa]|cliente|visit(?:ante|atore|eur|ador)|besucher|bezoeker|utente|utilizador|gebruiker|klant|användare|kund|bruker|użytkownik|klient|uživatel|utilizator|felhasználó|käyttäjä|korisnik|uporabnik|kullanıcı|pengguna){LETTER}*\s+(?:{LETTER}+\s+){{0,3}}?(?:schr|tipp|gibt|gab|écri|tape|saisi|escrib|escrev|digit|scriv|scrit|typ|skri|skre|pis|napis|napíš|píš|wpis|scri|ír|beír|kirj|upi|vpi|vnes|une|yaz|gir|men(?:ulis|getik))"
    rf"|\b(?:erwartet|attendue?|esperad[oa]|atteso|verwacht|förväntat|forventet|oczekiwan|očekávan|așteptat|elvárt|odotettu|očekivan|pričakovan|beklenen|diharapkan){LETTER}*"
    rf"|\b(?:extraktion|extracci[oó]n|extração|estrazione|unsichtbar{LETTER}*|invisible|invisibile|onzichtbaar)\b"
    r"|\b(?:difference\s+between|how\s+do\s+you\s+(?:say|spell)|unterschied\s+zwischen|wie\s+schreibt\s+man|comment\s+(?:dit|écrit)-on|c[oó]mo\s+se\s+(?:dice|escribe)|come\s+si\s+(?:dice|scrive)|forskjellen|skillnaden|forskellen|verschil\s+tussen)\b|как\s+правильно|як\s+правильно"
    r"|(?:пользовател|користувач|клиент|клієнт)[а-яіїєґ]*\s+(?:[а-яіїєґ]+\s+)?(?:пиш|напис|ввод|ввел|ввёл|ввів|набира|вводит)|ожидаем|очікуван|người\s+dùng\s+(?:đã\s+)?(?:nhập|gõ|viết|gửi)|mong\s+đợi|(?:كتب|يكتب|أرسل|يرسل|أدخل|يدخل)\s+المستخدم|المستخدم\s+(?:كتب|يكتب|أرسل|يرسل|أدخل|يدخل)|المتوقع|کاربر\s+(?:[^.!؟\n]{0,20})?(?:نوشت|می.?نویسد|فرستاد|وارد)|המשתמש\s+(?:כותב|כתב|הקליד|שלח)|צפוי"
    r"|用[户戶](?:[^。！？\n]{0,6})(?:输入|輸入|发送|發送|写道|寫道|说|說)|预期|ユーザー[がは]?[^。\n]{0,8}(?:入力|書)|期待(?:結果|値|される)|사용자[가는]?\s?[^.\n]{0,8}(?:입력|썼|쓴|보낸)|예상\s?결과|기대\s?결과|(?:यूज़र|उपयोगकर्ता)[^।!?\n]{0,20}(?:लिख|टाइप|भेज)|अपेक्षित|ผู้ใช้(?:พิมพ์|เขียน|ส่ง)"
    r"|例如|比如|诸如|攻击|攻擊|注入|越狱|示例|例子|样本|检测|拦截|黑名单|什么意思|例えば|攻撃|インジェクション|などの|といった|という文|例：|예를\s?들|공격|인젝션|예시|같은\s?(?:문장|문구|말)|라는\s?(?:문장|문구|말)|라는\s?(?:한마디|요청|질문|입력|지시)|라고\s?(?:적|쓰|쓴|썼|써\s?있|보내|보낸|입력)|と(?:書かれ|書いてあ|入力(?:され|した|する)|送られ)|उदाहरण|हमल|जैसे|ตัวอย่าง|โจมตี|เช่น"
)
_OBEY_VERBS = (
    rf"follow|obey|execute|perform|carry\s+out|comply\s+with|act\s+(?:on|upon|according)|do\s+(?:as|what|exactly|this|the)|apply|heed|adhere|complete|fulfil{LETTER}*"
    rf"|befolg{LETTER}*|führe?|mach\s+was|gehorche?|exécute{LETTER}*|sui(?:s|vez)|obé{LETTER}+|applique{LETTER}*|haz|ejecut{LETTER}*|sigu?[ea]{LETTER}*|obede{LETTER}+|cumpl{LETTER}+|faça|execut{LETTER}+|esegui{LETTER}*|segui{LETTER}*|obbedisci"
    rf"|voer|volg|doe\s+wat|wykonaj|zrób|postępuj|выполн{LETTER}+|сделай|следуй|виконай|uygula|yap|thực\s+hiện|làm\s+theo|laksanakan|ikuti|lakukan|نفذ|اتبع"
)
OBEY_BEFORE = rf"{_WORD_START}(?:{_OBEY_VERBS})(?:[^a-z\x{{c0}}-\x{{1fff}}.!?\n][^.!?\n]*)?\z|(?:执行|照做|遵循|按照|実行|従って|従い|실행|따르|따라)[^。！？\n]*\z"
"""In the last sentence before a quotation."""
OBEY_AFTER = (
    rf"\A[\s\pP]{{0,4}}(?:{LETTER}+\s+){{0,4}}?(?:(?:{_OBEY_VERBS})|do|now|comply|sofort|jetzt|maintenant|ahora|agora|adesso|сейчас)\s+(?:it|that|so|this|these|now|them|at\s+once|immediately|accordingly|das|dies|es|eso|esto|isso|isto|dat|это|then)\b"
    r"|\A[\s\pP]{0,4}(?:照做|执行|立即|現在|従って|実行して|그대로|따르)"
)
OBJECT_OF_ORDER = (
    r"(?:[:=,;]|\b(?:please|kindly|now|then|and|must|should|shall|just|simply|to|you|immediately|first|also|bitte|jetzt|und|sofort"
    r"|maintenant|et|veuillez|ahora|y|por\s+favor|agora|e|adesso|ora|nu|en|og|och|teraz|proszę|пожалуйста|сейчас|lütfen|şimdi|hãy|tolong))\s*\z"
)
"""Directly before a quotation, makes it the object of an order, or a value."""
COORDINATION = r"\A[\s\pP]*(?:and|then|now|or|und|dann|et|puis|y|luego|e|poi|en|och|og|i|и|ve|và|dan|،|，)\b"
SENTENCE_FRAGMENT = r"[a-z\x{c0}-\x{1fff}]{2,}[^a-z\x{c0}-\x{1fff}]+[a-z\x{c0}-\x{1fff}]{2,}|[\x{3040}-\x{30ff}\x{4e00}-\x{9fff}\x{ac00}-\x{d7af}\x{e00}-\x{e7f}]{4,}"
"""Two words, or four letters of a script without spaces: a sentence that contains a quotation."""
EXTERNAL_SCOPE = (
    r"\A[\s*_]+(?:(?:that\s+|which\s+)?(?:(?:i|we|he|she)\s+(?:gave|sent|said|wrote|pasted|posted|made|set)|(?:were|was)\s+(?:sent|posted|printed)|(?:given|written|printed|pasted|stated)\s+(?:by|in|to|on)|sent\s+by)"
    r"|about|regarding|concerning|re:?|on|for|from|in|under|around|with\s+regard\s+to"
    r"|zu[rm]?|aus|über|für|von|vom|wegen|bezüglich|im|sur|pour|concernant|à\s+propos|du|des|sobre|del|para|do|da|dos|das|no|na|su|sull?a?|per|nell?a?"
    r"|over|voor|van|uit|inzake|från|om|för|til|vedrørende|angående|dotycz{L}*|do|o|z|ze|по|о|об|про|для|из|hakk{L}*|về|untuk|tentang|soal|dari|بخصوص|بشأن|حول|عن|على)\s"
).replace("{L}", LETTER)
"""Follows an order about one thing in the world."""
ABOUT_MODEL = (
    r"\b(?:your|you|yourself|openai|anthropic|google|system|prompt|developers?|safety|secre\w+|confiden\w+|privacy|roles?|assistants?|ai|bots?|models?|personas?|restrictions?|polic\w+"
    r"|guidelines|rules|ethic\w*|content|security|above|point|now|rest|conversation|chat|session|translat\w+|tasks?|summar\w+|responses?|repl\w+|answers?|outputs?|users?|instructions?|everything|all|this|these|here|them|him|her|line|denne|linje|zeile|ligne|l[ií]nea|linha|riga"
    r"|dein\w*|dir|dich|du|ihre?n?|sie|system\w*|ki|rolle|sicherheit|tes|ton|ta|toi|vos|votre|rôle|sécurité|ia|tu|tus|su|sus|rol|seguridad|seu|sua|seus|suas|teu|você|segurança|tuo|tua|tuoi|sicurezza|je|jouw|jij|rol|veiligheid|din|dina|dig|säkerhet|tw{L}+|ci|тво{L}+|тебе|тебя|систем{L}*|роли|безопасност{L}*|bạn|kamu|anda|mu)\b"
).replace("{L}", LETTER)
"""Makes the order one about the model after all."""
FIRST_PERSON = (
    r"\s(?:my|our|meine[nmrs]?|unsere[nmrs]?|mes|nos|mis|nuestr[ao]s|minhas?|meus?|nossas?|mie|miei|mia|mijn|onze|mina|mine|moje|moich|мои|мої|моих)"
    r"\s+(?:[a-z\x{c0}-\x{1fff}]+\s+){0,2}?(?:instru|istruz|prompt|message|order|direction|rule|comment|email|anweisung|nachricht|vorgab|consigne|indica|mensaj|mensag|orden|regl|messagg|bericht|polec|wiadomo|wytyczn|инструк|указан|сообщен)"
    r"|talimat(?:lar)?ım[ıa]?\b|yönergelerimi"
)
"""The speaker cancels their own words."""
OWN_WORDS = (
    r"\b(?:i|we)(?:'ve|\s+have|\s+had)?\s+(?:just\s+|already\s+)?(?:said|told|wrote|written|asked|mentioned|gave|given|sent|pasted|typed|discussed)\b"
    r"|\b(?:in|from|of|on|about)\s+my\b|\bich\s+(?:{L}\s+){0,3}(?:gesagt|geschrieben)|j'ai\s+(?:dit|écrit)|\b(?:dije|escribí|he\s+dicho)\b"
    r"|\beu\s+(?:disse|escrevi)\b|\bho\s+(?:detto|scritto)\b|\bik\s+(?:{L}\s+){0,3}(?:zei|schreef)|\bя\s+(?:{L}\s+)?(?:сказал|написал|говорил|писал)"
    r"|我(?:之前|刚才|刚刚|前面|上面|先前)?(?:说|說|写|問|问|讲)"
).replace("{L}", f"{LETTER}+")
"""The speaker's own earlier words, or a text of theirs."""
EVERYTHING = r"\b(?:everything|all|alles|tout|todo|tudo|tutto|вс[её])\b|一切|所有|全部"
"""With it an attack begins as well: "forget everything I told you, your new job is ..."."""
SLIP = (
    r"\b(?:i|we)\s+(?:made\s+(?:a|an)\s+(?:mistake|error|typo)|mistyped|misspoke|messed\s+up|pasted\s+the\s+wrong|was\s+wrong|meant)\b|\bmy\s+(?:mistake|bad|fault)\b"
    r"|\bwrong\s+(?:chat|file|window|tab|thread|text|message)\b|\bhabe\s+mich\s+(?:vertippt|geirrt|vertan|verschrieben)|\bme\s+suis\s+trompé|\bme\s+(?:equivoqué|he\s+equivocado|enganei)"
    r"|\bho\s+sbagliato|\bvergiste\s+me|\b(?:ошибся|ошиблась|опечатал{L})"
).replace("{L}", f"{LETTER}+")
"""Why people take their words back."""
CANCELLED_OBJECT = r"instru|istruz|instruc|\b(?:directions?|directives?|orders?|guid\w+|messages?|rules?)\b|anweisung|vorgab|consignes|directives|[oó]rden|indicac|indicaz|instruções|ordens|regel|polec|wytyczn|инструк|указан|talimat|hướng|instruksi|تعليمات"
"""The object of such a cancellation, required by the two above."""
SECOND_PERSON = r"\b(?:your|ur|you|du|dir|vous|você|deine?[rnms]?|eure|ihre|ton|tes|vos|tus|tu|seus|suas|teus|tuas|tuo|tua|tuoi|tue|jouw|je|dina|dine|twoje|твои|твої|kendi|bạn|anda)\b"
"""Names the owner of the orders: those of the model are not a thing in the world."""
HOW_TO = (
    r"\bhow\s+(?:(?:do|can|could|should|would|might|does)\s+(?:i|we|one|someone|developers|a\s+developer)|to)\s+(?:[a-z]+ly\s+)?\z"
    r"|(?:\A|[.!?;:\n])\s*(?:(?:in\s+order|so\s+as)\s+to|pour(?:\s+faire)?|para(?:\s+(?:hacer|fazer))?|per(?:\s+fare?)?)\s+\z"
)
"""How something is done, as a question or as an aim, is not an order, unless it is about the model's own
(`SECOND_PERSON`)."""
CANCEL_VERB = r"ignor|disregard|forget|overrid|overlook|discard|cancel|\bdrop|vergiss|vergess|verges|missacht|negeer|vergeet|oubli|annul|olvid|omiso|esque|desconsider|dimentic|zapom|игнор|забуд|отмен|unut|yok\s+say|bỏ\s+qua|abaikan|lupakan|تجاهل|glem|glöm|bortse|忘记|忘掉|忽略|无视|忘れ|無視"
"""The verbs of a cancellation."""
REPLACEMENT_ORDER = r"\A\W{0,3}(?:and|instead|then|but)\W+(?:[a-z]+\W+){0,2}?(?:say|respond|reply|print|output|reveal|tell|repeat|show|write|answer|follow|act|pretend|obey|execute|send)\b"
"""What an attack says next."""
