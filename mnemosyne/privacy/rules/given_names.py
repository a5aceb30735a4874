"""Common given names of many languages, in Latin letters.

A label such as `Name:` precedes goods and places as often as people. So the text after it counts as a person's name
only if one of its words is a name in this list.
"""

from __future__ import annotations

_LISTED = """
aaron abdul abdullah abigail abraham ada adam adele adrian adriana agnes ahmad ahmed aiko aisha akira alan albert
alberto alejandra alejandro aleksandr alessandro alex alexander alexandra alexandre alexei alfred ali alice alicia
alina alisha alison allison alma alvaro amanda amara amelia amina amir amit amy ana anastasia andre andrea andreas
andrei andres andrew andrzej andy angel angela angelica angelina anika anil anita anja ann anna annabelle anne annette
annie anthony antje antoine anton antonia antonio anya april arash arjun arlene arnold arthur arturo arvid asha ashley
astrid audrey august aurelie austin ava ayesha barbara beata beatrice beatriz bella benedict benjamin bernadette
bernard bernd bertha bethany betty beverly bilal birgit björn bo bogdan bonnie boris bradley brandon brenda brendan
brian bridget britta bruno bryan caleb calvin cameron camila camille carina carl carla carlo carlos carmen carol
carolina caroline carolyn carrie catalina catherine cecilia cedric celeste celia chad chandra charles charlie
charlotte chiara chidi chloe christa christian christina christine christoph christopher claire clara clarence claude
claudia clemens clifford colette colin colleen connor conrad constance corinne craig cristina crystal curtis cynthia
dagmar damian damien daniel daniela danielle daphne darius darren david deborah debra deepak denis denise dennis derek
desmond diana diane diego dieter dimitri dina dmitri dmitry dolores dominic dominik donald donna dora doris dorothea
dorothy douglas duncan dylan ebony edgar edith edmund eduardo edward edwin eileen ekaterina elaine eleanor elena eleni
elijah elisa elisabeth eliza elizabeth ella ellen eloise elsa elvira emeka emil emilia emilie emilio emily emma
emmanuel enrique eric erica erich erik erika erin ernest esperanza esteban estelle esther ethan etienne eugene eva
evan evelyn ewa fabian fabio fang farah fatima fatma federico felicia felicity felipe felix feng fernanda fernando
fiona florence florian frances francesca francesco francis francisco franck francois frank franz françois fred
frederic frederick frederik frida friedrich gabriel gabriela gabrielle gareth gary gavin gemma geoffrey george georgia
georgina gerald gerard gerardo gerda gertrude giancarlo gianna gilbert giovanni gisela giulia giuseppe gloria gordon
grace graham greg gregory greta gretchen guadalupe guillaume guillermo gunther gustav gwen gwendolyn hakim hamza hana
hanna hannah hans hao harold harriet harry haruki hassan hazel heather hector heidi heike heinrich helen helena helene
helga helmut henri henrietta henrik henry herbert hermann hilary hiroshi holly hong horst howard hubert hugo hui
hussein hyun ian ibrahim ida ignacio igor ilse imani imran ines inga ingrid irena irene irina iris isaac isabel
isabella isabelle isaiah ivan ivana jack jackie jacob jacqueline jacques jaime jakob jakub james jamila jan jana jane
janet janice janine jared jarek jasmin jasmine jason javier jay jean jeanette jeanne jeff jeffrey jelena jenna
jennifer jenny jens jeremiah jeremy jerome jesse jessica jesus jianguo jie jihoon jill jim jimmy jing joachim joan
joanna joanne joao joaquin jochen jodie joe joel johan johann johanna johannes john jonas jonathan jordan jorge jose
josef josefina joseph josephine joshua josé joyce juan juana judith julia julian juliana julie julien juliet julio
julius jun jurgen justin justyna jürgen kamal kamila karen karim karin karina karl karla karolina katarina kate
katharina katherine kathleen kathryn kathy katie katja katrin kayla keith kelly kelvin kenji kenneth kenta kerstin
kevin khadija khalid kiara kim kimberly klara klaus kofi konrad konstantin krista kristen kristin kristina kristof
krystyna kurt kwame kyle lakshmi lara larissa larry lars laura lauren laurence laurent laurie lawrence lea leah lei
leila lena leo leon leonard leonardo leonie leonor leopold leroy leslie liam lidia lilian liliana lillian lily linda
lindsay linh lisa liu long lorena lorenzo loretta lorraine louis louisa louise luca lucas lucia lucille lucinda lucy
lucía ludwig luis luisa luka lukas luke lydia lynn mabel madeleine madeline magdalena mahmoud malcolm malik manfred
manuel manuela marc marcel marcela marcia marco marcus margaret margarita margot maria mariam marian mariana marianne
marie marina mario marion marisa marisol marjorie mark marko markus marlene marta martha martin martina mary maryam
masha mateo mathias mathilde matilda matteo matthew matthias maureen maurice mauricio max maxim maximilian maya megan
mehmet mei melanie melinda melissa mercedes mercy michael michaela michal michel michele michelle miguel mihai mika
mikael mikhail milan mildred mina ming minh minji miranda miriam mitchell mohamed mohammad mohammed moira molly monica
monika monique morgan moritz muhammad mustafa myra nadia nadine nancy naoko naomi natalia natalie natasha nathan
nathaniel neha neil nelson nguyen nicholas nicola nicolas nicole nigel nikhil nikita niklas nikolai nils nina noah
noel nora norbert norma norman olaf oleg olga oliver olivia olivier oluwaseun omar orlando oscar osman otto owen pablo
pamela paola paolo pascal patrice patricia patrick paul paula paulina pauline pavel pedro peggy penelope percy perry
peter petra philip philipp philippe phillip phoebe phyllis pierre pilar ping piotr polina preeti priscilla priya qiang
rachel rachid radek rafael rahul raimund rajesh ralf ralph ramon ramona randall raphael raquel rashid raul ravi
raymond rebecca regina reinhard renata renate rene renee rené reza rhonda ricardo richard rita robert roberta roberto
robin rocio roderick rodrigo roger roland rolf roman ronald rosa rosalie rosalind rosario rose rosemarie rosemary
rosie roxanne roy ruben rudolf rupert russell ruth ryan sabine sabrina said sakura salma salvador sam samantha samir
samuel sandra sanjay santiago sara sarah sascha sasha saskia scott sean sebastian selina serena sergei sergey sergio
seth shannon sharon shawn sheila shirley shreya sibylle silvia simon simone sofia sofie sonia sonja soojin sophia
sophie stanislav stanley stefan stefania stefanie steffen stella stephan stephane stephanie stephen steve steven
stuart suleiman sunil susan susana susanna susanne suzanne svea sven svetlana swati sybil sylvia tabitha takashi
tamara tania tanja tanya tao tara tatiana tatjana terence teresa theodor theodora theodore theresa therese thiago
thierry thomas thuy tim timothy tina ting tobias todd tom tomas tomasz tommy toni tony tracey tracy trevor tristan
tyler tyrone ulrich ulrike ursula uwe valentin valentina valeria valerie vanessa vera veronica veronika victor
victoria vikram viktor viktoria vincent viola violet virginia vitaly vivian vladimir volker walter wanda wayne wei
wendy werner wilhelm willem william wilma winifred winston wojciech wolfgang xavier xiaoli xiaoming xin xiu yan yana
yang yasmin yi ying yoko yolanda yong yosef youssef yuki yuna yuri yusuf yves yvonne zachary zahra zainab zeynep zoe
zofia zsofia zuzana
adaeze adebayo agata agnieszka alasdair aleksander alexa alistair aminata anders anneliese ansel aoife arabella archie
arne asger aslaug ayumi azad bartholomew bastian beatrix benedikt bjarne blessing bojan bram branko bronwyn caitlin
callum candace catriona chiamaka chinedu chiyo cillian clementine colm cordelia cormac cosima dagny daisuke dalia
danica davor declan deirdre delphine demetrius dieudonne dilara dragan eamon ebba edda eero eilidh eirik elias elif
elodie emre endre enzo erlend ewan fadi faisal farid fatou ferdinand fergus fiammetta finn fionn folke freya gaurav
genevieve georgios gerhard gianluca gideon ginevra giorgos grainne gudrun gunnar gwyneth haakon hamid hanne harald
haruto hayato hedwig hendrik hendrika hideo hilde hiroko hugh idris ifeoma ilaria ilona imogen ingeborg ionut iqbal
isadora isak ismail jadwiga jarmila jasper joakim jolanta jorunn josephus juniper kaede kaito kalina karsten kaspar
katya kazuki keiko kenzo khaled kirsten kjell konstantinos kunal laszlo latifa liesel lieselotte liv ljubica lothar
lucian ludmila magda magnus maia mairead malgorzata marit marjan mateusz mats maude mehdi mette milena mirjam mohan
mordecai nadezhda narges nasrin natsuki niamh nikos noor octavia odette odin oksana olena olumide ottilie ottoline
padraig paloma parisa parveen pascale pavlos peregrine petr pieter prakash rafal raghav ramesh ravindra reiko rhys
riccardo rikke roisin ronan rosalyn rosamund rowan rune ryota sadia saif salome sana sanna saoirse seamus shirin
shreyas sigrid sigurd silas sinead siobhan slavko snezana solveig soren sota stavros stelian sunita susannah tadeusz
taiwo takumi tamsin tarek teodora thandiwe theo thora thorsten tiago tilda tomoko torsten tove uchenna ulla umar
urszula usha vasile vidar viveka vlad wiebke winnie xenia yael yannick yasmina yetunde yevgeny yuliya yumi yusra
yvette zara zdenek zeynab zoran
"""
GIVEN_NAMES = frozenset(_LISTED.split())
